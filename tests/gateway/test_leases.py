"""Connections that calls have for themselves: how many a client gets, and what happens to those that wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import pytest

from dovetail import Gateway, OutcomeUnknown
from dovetail.gateway.servers.leases import MAX_LEASES, MAX_WAITING_LEASES, ConnectionKey, Leases
from tests.support.asking import Rounds, asked

KEEPING = [sys.executable, str(Path(__file__).parent / "programs" / "keeping_server.py")]


class Scene:
    """Leases of one client; the test says which calls wait for the client."""

    def __init__(self) -> None:
        self.waiting: set[ConnectionKey] = set()
        self.given_up: list[int] = []
        self.leases = Leases(lambda key: key in self.waiting)

    async def acquire(self, name: int = 0, owner: str = "ann", *, waits: bool = False) -> ConnectionKey:
        key = await self.leases.acquire(owner, b"{}", lambda: self.given_up.append(name), 0.05)
        if waits:
            self.waiting.add(key)
        return key


async def test_each_call_in_progress_has_another_connection() -> None:
    scene = Scene()
    keys = [await scene.acquire() for _ in range(MAX_LEASES)]
    assert [number for _, _, number in keys] == list(range(MAX_LEASES))
    with pytest.raises(TimeoutError):
        await scene.acquire()
    assert (await scene.acquire(owner="bob"))[2] == 0
    scene.leases.release(keys[3])
    assert await scene.acquire() == keys[3]


async def test_calls_that_wait_for_their_client_keep_no_others_from_a_connection() -> None:
    scene = Scene()
    for _ in range(MAX_WAITING_LEASES - 1):
        await scene.acquire(waits=True)
    assert (await scene.acquire())[2] == MAX_WAITING_LEASES - 1


async def test_the_oldest_call_that_waits_is_given_up_for_others() -> None:
    scene = Scene()
    keys = [await scene.acquire(name, waits=True) for name in range(MAX_WAITING_LEASES)]
    acquiring = asyncio.create_task(scene.acquire())
    await asyncio.sleep(0)
    assert scene.given_up == [0]
    scene.leases.release(keys[0])
    assert await acquiring == keys[0]


async def test_a_client_that_answers_nothing_can_still_call() -> None:
    """Each unanswered question holds a process of the server; the oldest one is given up in the end."""
    gateway = Gateway({"keep": KEEPING})
    async with asked(gateway) as client, contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(gateway.close)
        unanswered = [await Rounds.call(client, "keep__ask") for _ in range(MAX_WAITING_LEASES)]
        assert (await client.call("keep__keep", what="x", timeout=20)).data
        await unanswered[-1].answer("late")
        assert unanswered[-1].text == "accept late"
        with pytest.raises(OutcomeUnknown):
            await unanswered[0].answer("too late")
