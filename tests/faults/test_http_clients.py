"""Clients that go in the middle of a stream, stop reading, are never seen again, or break off all the time."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import random
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.storage.memory import MemoryStore
from tests.faults.flooding import first_of, flooding
from tests.support.raw import descriptors
from tests.support.raw_http import (
    BOTH,
    JSON,
    Answer,
    Event,
    Line,
    Site,
    initialize,
    modern,
    modern_headers,
    request,
    text_of,
)
from tests.support.replica_group import REPLICAS
from tests.support.waiting import settled, until
from tests.support.workshop import deployed, workshop


async def told(site: Site, tool: str, line: Line | None = None, **arguments: Any) -> Answer:
    """Call a tool on the envelope era and ask for its progress."""
    meta = {"progressToken": 7, "io.modelcontextprotocol/logLevel": "debug"}
    message = modern("tools/call", meta=meta, name=tool, arguments=arguments)
    line = line or await site.connect()
    headers = [*modern_headers(message).items(), ("Accept", BOTH), ("Content-Type", JSON)]
    return await line.ask("POST", "/mcp", headers, json.dumps(message).encode())


class TestGoneInTheMiddleOfAStream:
    async def test_on_the_envelope_era_it_means_that_the_call_is_cancelled(self) -> None:
        async with workshop() as (server, site, endpoint):
            await (await site.call("echo", text="warm")).json()
            before = asyncio.all_tasks()
            calls = [await told(site, "tell_and_wait") for _ in range(20)]
            for call in calls:
                await call.message()
            for call in calls:
                call.line.abort()
            await until(lambda: server.ended == ["tell_and_wait"] * 20)
            await until(lambda: endpoint.health()["calls"] == 0)
            await until(lambda: not asyncio.all_tasks() - before)

    async def test_on_the_handshake_era_it_means_nothing_and_the_call_is_answered_to_who_comes_back(self) -> None:
        async with workshop() as (server, site, endpoint):
            session = await site.session("2025-11-25")
            calls = [await session.call("tell_and_wait", token=number) for number in range(20)]
            seen = [(await first_of(call)).id for call in calls]
            for call in calls:
                call.line.abort()
            await until(lambda: not endpoint.busy)
            assert server.ended == []
            server.go.set()
            for last in seen[-10:]:
                again = await session.get(last=last)
                *_, answer = await again.messages()
                assert text_of(answer) == "told"
            await until(lambda: not any(live.streams for live in endpoint.live()))

    async def test_coming_back_over_and_over_to_a_silent_call_leaves_no_task_behind(self) -> None:
        async with workshop() as (server, site, endpoint):
            session = await site.session("2025-11-25")
            call = await session.call("tell_and_wait", token=1)
            last = (await first_of(call)).id
            call.line.abort()
            await until(lambda: not endpoint.busy)
            before = len(asyncio.all_tasks())
            for _ in range(20):
                again = await session.get(last=last)
                await again.next()
                again.line.abort()
                await until(lambda: not endpoint.busy)
            await settled()
            await until(lambda: len(asyncio.all_tasks()) <= before + 1)
            server.go.set()
            assert text_of(await (await session.get(last=last)).answer()) == "told"


@pytest.mark.slow
@pytest.mark.unheard("it counts objects")
@pytest.mark.one_replica("it counts the objects of one process, with a store in memory")
async def test_1000_abandoned_sessions_leave_nothing_behind() -> None:
    """Each with a stream that broke off, half of them in the middle of a call."""
    async with workshop(session_idle=1.0) as (server, site, endpoint):
        server.go.set()

        async def abandon(number: int, line: Line) -> None:
            async def ask(message: Any, *headers: tuple[str, str]) -> Answer:
                given = [*headers, ("Accept", BOTH), ("Content-Type", JSON)]
                return await line.ask("POST", "/mcp", given, json.dumps(message).encode())

            opened = await ask(initialize("2025-11-25", 1, elicitation={}))
            await opened.json()
            named = ("Mcp-Session-Id", opened.headers["mcp-session-id"])
            await (await ask({"jsonrpc": "2.0", "method": "notifications/initialized"}, named)).body()
            tool = {"name": "pace", "arguments": {"count": 5}}
            call = await ask(request("tools/call", 2, **tool, _meta={"progressToken": number}), named)
            if number % 2:
                await first_of(call)
            else:
                await call.answer()

        async def crowd(count: int) -> None:
            for start in range(0, count, 50):
                lines = [await Line.to(site.url) for _ in range(min(50, count - start))]
                await asyncio.gather(*(abandon(start + number, line) for number, line in enumerate(lines)))
                for line in lines:
                    await line.close()  # uvicorn remembers a connection that was reset for some seconds

        async def objects() -> int:
            """How much there is when all sessions have ended."""
            await until(lambda: endpoint.health()["sessions"] == 0)
            await settled()
            gc.collect()
            return len(gc.get_objects())

        await crowd(100)
        before, tasks = await objects(), len(asyncio.all_tasks())
        await crowd(1000)
        during = len(gc.get_objects())
        after = await objects()
        assert during - before > 5000, "a session is something that can be seen"
        assert after - before < 1000, f"{before} before, {during} during, {after} after"
        assert len(asyncio.all_tasks()) <= tasks
        assert not [one for one in server._core._sessions if one.lifecycle.terms is not None]
        store = endpoint.router.store
        assert isinstance(store, MemoryStore)
        assert len(store._entries) == 0
        assert len(store._logs) == 0


@pytest.mark.slow
async def test_10000_requests_of_which_1_in_100_is_broken_off_leave_nothing_behind() -> None:
    """On both eras at once: no task, no descriptor, no session, no call; and all the others are answered."""
    chance = random.Random(4)

    async def work(number: int, ctx: Context) -> int:
        if number % 10 == 0:
            await ctx.progress(1)
            await asyncio.sleep(0.001)
        return number

    def build() -> Server:
        server = Server("busy")
        server.tool(work)
        return server

    answered = broken = 0

    async def client(url: str, modern_era: bool, count: int) -> None:
        nonlocal answered, broken
        line = await Line.to(url)
        named: list[tuple[str, str]] = []
        if not modern_era:
            given = [("Accept", BOTH), ("Content-Type", JSON)]
            opened = await line.ask("POST", "/mcp", given, json.dumps(initialize("2025-11-25")).encode())
            await opened.json()
            named = [("Mcp-Session-Id", opened.headers["mcp-session-id"]), ("MCP-Protocol-Version", "2025-11-25")]
        for _ in range(count):
            number = chance.randrange(1000)
            params = {"name": "work", "arguments": {"number": number}}
            message = modern("tools/call", meta={"progressToken": 1}, **params)
            if modern_era:
                named = list(modern_headers(message).items())
            else:
                message = request("tools/call", **params, _meta={"progressToken": 1})
            body = json.dumps(message).encode()
            headers = [*named, ("Accept", BOTH), ("Content-Type", JSON)]
            if chance.random() < 0.01:
                broken += 1
                if chance.random() < 0.3:
                    await line.send("POST", "/mcp", [*headers, ("Content-Length", str(len(body)))], body[:20])
                else:
                    await line.send("POST", "/mcp", headers, body)
                    await asyncio.sleep(chance.choice((0, 0, 0.0005, 0.002)))
                line.abort()
                line = await Line.to(url)
            else:
                answer = await (await line.ask("POST", "/mcp", headers, body)).answer()
                assert text_of(answer) == str(number)
                answered += 1
        if not modern_era:
            assert (await line.ask("DELETE", "/mcp", named)).status == 204
        await line.close()

    async with deployed(build) as (url, endpoint):
        await client(url, True, 10)
        await client(url, False, 10)
        await until(lambda: not endpoint.health()["calls"])
        await settled()
        gc.collect()
        tasks, files = asyncio.all_tasks(), len(descriptors())
        answered = broken = 0
        await asyncio.gather(*(client(url, bool(number % 2), 625) for number in range(16)))
        assert answered + broken == 10_000
        assert broken > 50
        await until(lambda: len(descriptors()) <= files)
        await until(lambda: not asyncio.all_tasks() - tasks)
        assert endpoint.health()["sessions"] == endpoint.health()["calls"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("era", ["envelope", "handshake", "http+sse"])
@pytest.mark.parametrize("tool", ["flood_progress", "flood_logs"])
async def test_a_client_that_stops_reading_does_not_grow_the_memory(era: str, tool: str) -> None:
    """The handler wants to say 400 MB; what a stalled reader costs is a fraction of that, and others are served."""
    amount = {"size": 20_000, "count": 20_000}
    params = {"name": tool, "arguments": amount, "_meta": {"progressToken": 1}}
    async with flooding() as (flood, site):
        before = flood.memory()
        line = await site.connect(receive_buffer=8192)
        if era == "envelope":
            answer = await told(site, tool, line, **amount)
            await answer.message()
        elif era == "handshake":
            session = await site.session("2025-11-25")
            headers = [*session.headers.items(), ("Accept", BOTH), ("Content-Type", JSON)]
            body = json.dumps(request("tools/call", **params)).encode()
            answer = await line.ask("POST", "/mcp", headers, body)
            await answer.message()
        else:
            answer = await line.ask("GET", "/sse", [("Accept", "text/event-stream")])
            endpoint = str((await answer.next() or Event()).data)
            await site.post(initialize("2025-11-25", "init"), path=endpoint)
            assert (await answer.message())["id"] == "init"
            await site.post(request("tools/call", **params), path=endpoint)
        seen = -1.0
        async with asyncio.timeout(20):
            while True:
                await asyncio.sleep(0.2)
                far = await flood.how_far()
                if far["told"] == seen:
                    break
                seen = far["told"]
        grown = flood.memory("VmHWM") - before
        assert grown < 40, f"{grown:.0f} MB more after {seen} messages"
        line.abort()
        if era == "envelope":
            async with asyncio.timeout(5):
                while tool not in (await flood.how_far())["ended"]:
                    await asyncio.sleep(0.01)


async def test_a_reader_that_stalls_on_one_stream_holds_up_no_other_of_its_session() -> None:
    async with flooding() as (_, site):
        session = await site.session("2025-11-25")
        line = await site.connect(receive_buffer=8192)
        headers = [*session.headers.items(), ("Accept", BOTH), ("Content-Type", JSON)]
        stalled = request("tools/call", name="big", arguments={"size": 5_000_000})
        await line.send("POST", "/mcp", headers, json.dumps(stalled).encode())
        for _ in range(5):
            assert (await (await session.call("big", size=100)).json())["result"]
        assert len(text_of(await (await line.answer()).answer())) == 5_000_000, "and what waits is read later"


@pytest.mark.parametrize("sessions", [True, False])
async def test_a_flood_for_a_client_that_has_gone_comes_to_its_end(sessions: bool) -> None:
    """Nobody will ever read it, so nobody may wait for that."""
    ended: list[int] = []

    async def flood(ctx: Context) -> str:
        for number in range(2000):
            await ctx.progress(number + 1, message="x" * 2000)
        ended.append(1)
        return "x" * 500_000

    def build() -> Server:
        server = Server("flood")
        server.tool(flood)
        return server

    async with deployed(build, sessions=sessions, session_idle=1.0) as (url, _), Site(url) as site:
        await (await site.modern("tools/list")).json()
        tasks = asyncio.all_tasks()
        call = request("tools/call", name="flood", arguments={}, _meta={"progressToken": 1})
        line = await site.connect(receive_buffer=8192)
        headers = [("MCP-Protocol-Version", "2025-11-25")]
        if sessions:
            headers = list((await site.session("2025-11-25")).headers.items())
        given = [*headers, ("Accept", BOTH), ("Content-Type", JSON)]
        answer = await line.ask("POST", "/mcp", given, json.dumps(call).encode())
        await answer.message()
        line.abort()
        await until(lambda: ended)
        async with asyncio.timeout(10):
            await until(lambda: not asyncio.all_tasks() - tasks)


@pytest.mark.slow
@pytest.mark.parametrize("era", ["envelope", "handshake"])
async def test_what_a_client_has_read_is_not_remembered_without_bounds(era: str) -> None:
    """100 MB in large messages to a client that reads them all; a stream that can be resumed keeps some of them."""
    amount = {"size": 50_000, "count": 2000}
    async with flooding() as (flood, site):
        before = flood.memory()
        if era == "envelope":
            answer = await told(site, "flood_progress", None, **amount)
        else:
            answer = await (await site.session("2025-11-25")).call("flood_progress", token=1, **amount)
        read = sum([len(event.data or "") async for event in answer.events()])
        grown = flood.memory("VmHWM") - before
        # Behind a proxy and with a store in common a reader lags more.
        assert read > (2_000_000 if REPLICAS else 20_000_000), "progress is left out only while the reader lags behind"
        assert grown < 40, f"{grown:.0f} MB more for {read / 1e6:.0f} MB that were read"


@pytest.mark.slow
async def test_what_was_written_and_never_arrived_can_be_read_again() -> None:
    """A reader that lags has megabytes between itself and the server in buffers, and they go with the connection."""
    async with flooding() as (flood, site):
        session = await site.session("2025-11-25")
        call = await session.call("flood_progress", token=1, size=50_000, count=3000)
        events = [await first_of(call) for _ in range(30)]
        last = str(events[-1].id)
        while "flood_progress" not in (await flood.how_far())["ended"]:
            await asyncio.sleep(0.01)
        call.line.abort()
        again = await session.get(last=last)
        places = [int(str(event.id).split("_")[1]) for event in (events[-1], *await again.all()) if event.data]
        gaps = [(one, after) for one, after in itertools.pairwise(places) if after > one + 2]
        assert gaps == [], "only what is no message takes a place between two of them"
