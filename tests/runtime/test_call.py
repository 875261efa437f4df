"""A request that is being served: the progress it reports, and when it falls silent."""

import asyncio
from math import inf, nan
from typing import Any

import pytest

from dovetail.protocol.revisions import HANDSHAKE, REVISIONS
from dovetail.runtime.call import Call
from dovetail.transports.base import HIGH_WATER
from tests.support.peer import Peer, Script, connected, working

WANTS = {"progressToken": "t"}


def reporting(*values: Any, total: float | None = None, message: str | None = None) -> Script:
    async def report(call: Call) -> str:
        for value in values:
            await call.progress(value, total, message)
        return "done"

    return Script(report=working(report))


async def reports(peer: Peer) -> list[dict[str, Any]]:
    """The params of every progress notification up to the answer."""
    found: list[dict[str, Any]] = []
    while "result" not in (message := await peer.next()):
        assert message["method"] == "notifications/progress"
        found.append(message["params"])
    return found


async def test_progress_carries_the_token_of_the_request():
    async with connected(reporting(1, 2.5, total=5, message="half way")) as (_, peer):
        peer.request(1, "report", _meta={"progressToken": 77})
        assert await reports(peer) == [
            {"progressToken": 77, "progress": 1, "total": 5, "message": "half way"},
            {"progressToken": 77, "progress": 2.5, "total": 5, "message": "half way"},
        ]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"_meta": {}},
        {"_meta": None},
        *({"_meta": {"progressToken": token}} for token in (1.5, True, None)),
    ],
)
async def test_who_gave_no_token_hears_nothing(params: dict[str, Any]):
    async with connected(reporting(1, 2)) as (_, peer):
        peer.request(1, "report", **params)
        assert await reports(peer) == []


async def test_only_increasing_values_are_sent():
    async with connected(reporting(1, 1, 0.5, 2, 1.5, -3, 3)) as (_, peer):
        peer.request(1, "report", _meta=WANTS)
        assert [report["progress"] for report in await reports(peer)] == [1, 2, 3]


async def test_what_json_cannot_hold_is_not_sent():
    async with connected(reporting(nan, -inf, inf, 1, total=inf)) as (_, peer):
        peer.request(1, "report", _meta=WANTS)
        assert await reports(peer) == [{"progressToken": "t", "progress": 1}]


@pytest.mark.parametrize("name", HANDSHAKE)
async def test_a_revision_that_knows_no_message_gets_none(name: str):
    service = reporting(1, message="on my way")
    service.revision = REVISIONS[name]
    async with connected(service) as (_, peer):
        peer.request(1, "report", _meta=WANTS)
        (report,) = await reports(peer)
        assert ("message" in report) is (name != HANDSHAKE[0])


class TestFlooding:
    async def test_a_peer_that_reads_gets_every_value(self):
        async with connected(reporting(*range(5000))) as (_, peer):
            peer.request(1, "report", _meta=WANTS)
            assert [report["progress"] for report in await reports(peer)] == list(range(5000))

    async def test_others_get_their_turn_meanwhile(self):
        turns = 0

        async def flood(call: Call) -> int:
            before = turns
            for value in range(2000):
                await call.progress(value, None, None)
            return turns - before

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with connected(Script(flood=working(flood))) as (_, peer):
            counting = asyncio.create_task(count())
            peer.request(1, "flood", _meta=WANTS)
            for _ in range(2000):
                await peer.next()
            assert await peer.answer() >= 20
            counting.cancel()

    async def test_a_peer_that_lags_gets_the_newest_value_and_memory_does_not_grow(self):
        count = 20_000
        ended = asyncio.Event()

        async def flood(call: Call) -> str:
            for value in range(count):
                await call.progress(value, None, "x" * 50)
            ended.set()
            return "done"

        async with connected(Script(flood=working(flood))) as (_, peer):
            peer.channel.pause()
            peer.request(1, "flood", _meta=WANTS)
            await ended.wait()
            assert peer.channel._unread.size < HIGH_WATER + 1000  # pyright: ignore[reportPrivateUsage]
            peer.channel.resume()
            values = [report["progress"] for report in await reports(peer)]
            assert len(values) < count / 2
            assert values == sorted(values)
            assert values[-1] == count - 1

    async def test_what_was_held_back_comes_as_soon_as_the_peer_reads_again(self):
        go = asyncio.Event()

        async def flood(call: Call) -> str:
            value = 0
            while not call.sink.congested:
                value += 1
                await call.progress(value, None, "x" * 1000)
            await call.progress(10**6, None, None)
            go.set()
            await asyncio.Event().wait()
            return "never"

        async with connected(Script(flood=working(flood))) as (_, peer):
            peer.channel.pause()
            peer.request(1, "flood", _meta=WANTS)
            await go.wait()
            peer.channel.resume()
            while (await peer.next())["params"]["progress"] != 10**6:
                pass
            await peer.silent()


class TestSilence:
    async def test_after_its_answer_a_call_reports_nothing(self):
        kept: list[Call] = []

        async def answer(call: Call) -> str:
            kept.append(call)
            return "done"

        async with connected(Script(answer=working(answer))) as (_, peer):
            peer.request(1, "answer", _meta=WANTS)
            await peer.answer()
            await kept[0].progress(1, None, None)
            await peer.silent()
            assert kept[0].silent

    async def test_held_progress_of_a_cancelled_call_is_never_sent(self):
        held = asyncio.Event()

        async def flood(call: Call) -> None:
            while not call.sink.congested:
                await call.progress(len(kept), None, "x" * 1000)
                kept.append(None)
            await call.progress(10**6, None, None)
            held.set()
            await asyncio.Event().wait()

        kept: list[None] = []
        async with connected(Script(flood=working(flood))) as (connection, peer):
            peer.channel.pause()
            peer.request(1, "flood", _meta=WANTS)
            await held.wait()
            connection.received(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
            peer.channel.resume()
            seen = [(await peer.next())["params"]["progress"] for _ in kept]
            assert seen == list(range(len(kept)))
            await peer.silent()
