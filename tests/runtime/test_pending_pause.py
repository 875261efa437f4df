"""Clocks of requests stand still while we answer the peer."""

import asyncio
from typing import Any

import pytest

from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.errors import Timeout
from tests.support.clock import Clock
from tests.support.peer import Script, connected, notification
from tests.support.waiting import settled


def waiting(connection: Any, *patience: float | None) -> "asyncio.Task[Any]":
    return asyncio.create_task(connection.pending.request("x", None, Timeouts(*patience)))


class TestPause:
    async def test_the_time_that_was_left_is_left_after_it(self):
        clock = Clock()
        async with connected(Script()) as (connection, _):
            request = waiting(connection, 10)
            await settled()
            await clock.advance(6)
            connection.pending.pause()
            await clock.advance(30)
            assert not request.done()
            connection.pending.resume()
            await clock.advance(3.9)
            assert not request.done()
            await clock.advance(0.2)
            with pytest.raises(Timeout, match="within 10 s"):
                await request

    async def test_it_lasts_until_the_last_has_resumed(self):
        clock = Clock()
        async with connected(Script()) as (connection, _):
            request = waiting(connection, 5)
            await settled()
            connection.pending.pause()
            connection.pending.pause()
            await clock.advance(10)
            connection.pending.resume()
            await clock.advance(10)
            assert not request.done()
            connection.pending.resume()
            await clock.advance(5.1)
            with pytest.raises(Timeout):
                await request

    async def test_a_request_made_meanwhile_has_all_its_time_afterwards(self):
        clock = Clock()
        async with connected(Script()) as (connection, _):
            connection.pending.pause()
            await clock.advance(10)
            request = waiting(connection, 5)
            await settled()
            await clock.advance(10)
            connection.pending.resume()
            await clock.advance(4.9)
            assert not request.done()
            await clock.advance(0.2)
            with pytest.raises(Timeout):
                await request

    async def test_the_maximum_stands_still_too(self):
        clock = Clock()
        async with connected(Script()) as (connection, _):
            request = waiting(connection, None, 8)
            endless = waiting(connection, None)
            await settled()
            connection.pending.pause()
            await clock.advance(20)
            connection.pending.resume()
            await clock.advance(7.9)
            assert not request.done()
            await clock.advance(0.2)
            with pytest.raises(Timeout, match="within 8 s"):
                await request
            assert not endless.done()
            endless.cancel()
            await asyncio.gather(endless, return_exceptions=True)

    async def test_an_answer_comes_through_all_the_same(self):
        async with connected(Script()) as (connection, peer):
            connection.pending.pause()
            request = waiting(connection, 5)
            sent = await peer.next()
            peer.send(notification("notifications/progress", progressToken=sent["id"], progress=1))
            peer.send({"jsonrpc": "2.0", "id": sent["id"], "result": {"a": 1}})
            assert await request == {"a": 1}
            connection.pending.resume()
