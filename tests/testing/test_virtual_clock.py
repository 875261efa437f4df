"""The clock of tests: hours pass in an instant, in order, for clients and servers on the same event loop."""

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from dovetail import Client, Context, LocalError, Server, Timeout
from dovetail.testing import VirtualClock
from tests.support.served import served

HOUR = 3600.0


def on_own_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a loop of its own: the limit of other tests is due when their loop has skipped a minute."""

    @functools.wraps(test)
    def run(*arguments: Any, **options: Any) -> None:
        asyncio.run(test(*arguments, **options))

    return run


def waiting_server() -> Server:
    server = Server("s")

    @server.tool
    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"

    return server


class TestTime:
    @on_own_loop
    async def test_what_is_due_happens_in_order_and_at_its_time(self) -> None:
        loop, seen = asyncio.get_running_loop(), list[float]()
        with VirtualClock() as clock:
            began, wall = loop.time(), clock.time()

            async def note(after: float) -> None:
                for _ in range(2):
                    await asyncio.sleep(after)
                    seen.append(round(loop.time() - began))

            tasks = [asyncio.create_task(note(after)) for after in (2 * HOUR, HOUR, 1.0)]
            await clock.advance(HOUR + 1)
            assert seen == [1, 2, 3600]
            await clock.advance(3 * HOUR)
            assert seen == [1, 2, 3600, 7200, 7200, 14400]
            assert round(clock.time() - wall) == 4 * HOUR + 1
            await asyncio.gather(*tasks)

    @on_own_loop
    async def test_everything_that_follows_has_happened_when_time_has_passed(self) -> None:
        seen: list[int] = []
        with VirtualClock() as clock:

            async def chain() -> None:
                await asyncio.sleep(HOUR)
                for n in range(100):
                    await asyncio.sleep(0)
                    seen.append(n)

            task = asyncio.create_task(chain())
            await clock.advance(HOUR)
            assert len(seen) == 100
            await task

    @on_own_loop
    async def test_time_passes_as_always_unless_it_is_skipped(self) -> None:
        loop = asyncio.get_running_loop()
        with VirtualClock():
            began = loop.time()
            await asyncio.sleep(0.01)
            assert 0.01 <= loop.time() - began < 10

    @on_own_loop
    async def test_afterwards_the_clock_does_not_go_back(self) -> None:
        loop = asyncio.get_running_loop()
        with VirtualClock() as clock:
            await clock.advance(HOUR)
            later = loop.time()
        assert loop.time() >= later
        await asyncio.sleep(0.001)

    @on_own_loop
    async def test_waiting_for_something_skips_as_much_time_as_it_takes(self) -> None:
        server, real = waiting_server(), time.monotonic()
        with VirtualClock(server) as clock:
            async with Client(server, timeout=None) as client:
                result = await clock.until(client.call("wait", seconds=20 * HOUR))
        assert result.text == "done"
        assert time.monotonic() - real < 60

    @on_own_loop
    async def test_waiting_for_something_that_never_comes_ends(self) -> None:
        text = "It is not done after 3,600 seconds of skipped time"
        with VirtualClock() as clock, pytest.raises(TimeoutError, match=text):
            await clock.until(asyncio.Event().wait(), most=HOUR)

    @on_own_loop
    async def test_an_error_is_raised_as_it_is(self) -> None:
        async def fail() -> None:
            await asyncio.sleep(HOUR)
            raise TimeoutError("mine")

        with VirtualClock() as clock, pytest.raises(TimeoutError, match="mine"):
            await clock.until(fail())

    @on_own_loop
    async def test_timeouts_of_clients_are_due(self) -> None:
        server = waiting_server()
        with VirtualClock(server) as clock:
            async with Client(server, timeout=30) as client:
                with pytest.raises(Timeout):
                    await clock.until(client.call("wait", seconds=HOUR))

    @pytest.mark.parametrize("executor", [False, True])
    @on_own_loop
    async def test_time_waits_for_a_thread(self, executor: bool) -> None:
        server, loop = Server("s"), asyncio.get_running_loop()
        began = loop.time()

        def think() -> float:
            time.sleep(0.02)
            return loop.time() - began

        async def think_elsewhere() -> float:
            return await asyncio.to_thread(think)

        server.tool(think_elsewhere if executor else think, name="think")
        with VirtualClock(server) as clock:
            async with Client(server, timeout=30) as client:
                assert (await clock.until(client.call("think"))).data < 30

    def test_another_event_loop_is_refused(self) -> None:
        uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")

        async def enter() -> None:
            with VirtualClock():
                pass

        with pytest.raises(LocalError, match="Time cannot be skipped on Loop: use the event loop of asyncio"):
            uvloop.run(enter())


@dataclass
class Basket:
    items: list[str]


@on_own_loop
async def test_handles_expire() -> None:
    server = Server("s")
    baskets = server.handles(Basket, ttl=HOUR)

    @server.tool
    async def new(ctx: Context) -> str:
        return await baskets.create(ctx, Basket([]))

    @server.tool
    async def show(id: str, ctx: Context) -> Basket:
        return await baskets.get(ctx, id)

    with VirtualClock(server) as clock:
        async with Client(server) as client:
            id = (await client.call("new")).text
            await clock.advance(HOUR - 10)
            await client.call("show", id=id)
            await clock.advance(HOUR + 10)
            assert "has expired" in (await client.call("show", id=id, check=False)).text


@on_own_loop
async def test_a_task_takes_hours_and_expires() -> None:
    server = Server("s")

    @server.tool(task="optional", ttl=2 * HOUR)
    async def report(ctx: Context) -> str:
        await ctx.status("reading")
        await asyncio.sleep(5 * HOUR / 6)
        await ctx.status("writing")
        await asyncio.sleep(5 * HOUR / 6)
        return "a report"

    with VirtualClock(server) as clock:
        async with served(server, "2025-11-25") as client:
            made = await client.result("tools/call", name="report", arguments={}, task={})
            id = made["task"]["taskId"]

            async def state() -> tuple[str, Any]:
                task = await client.result("tasks/get", taskId=id)
                return task["status"], task.get("statusMessage")

            assert await state() == ("working", "reading")
            await clock.advance(HOUR)
            assert await state() == ("working", "writing")
            await clock.advance(HOUR)
            assert (await state())[0] == "completed"
            assert (await client.result("tasks/result", taskId=id))["content"][0]["text"] == "a report"
            await clock.advance(2 * HOUR)
            assert (await client.refusal("tasks/get", taskId=id))["code"] == -32602


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@on_own_loop
async def test_a_client_follows_a_task_that_takes_hours_and_asks(revision: str) -> None:
    server, messages = Server("s"), list[str | None]()

    @server.tool(task="optional")
    async def report(ctx: Context) -> bool:
        for hour in range(5):
            await ctx.status(f"hour {hour}")
            await asyncio.sleep(HOUR)
        return (await ctx.elicit("Good?")).accepted

    with VirtualClock(server) as clock:
        async with Client(server, revision=revision, on_elicit=lambda _: {}) as client:
            task = await client.start("report", returns=bool)
            await clock.advance(2.5 * HOUR)
            assert (await task.refresh()).message == "hour 2"

            async def follow() -> None:
                async for update in task:
                    messages.append(update.message)

            await clock.until(follow())
            assert (await task.result()).data is True
    assert messages[0] == "hour 2" and {"hour 3", "hour 4"} <= set(messages)
