"""`SyncContext`: plain functions that wait for the event loop, are cancelled with their request, and lose nothing."""

import asyncio
import functools
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from dovetail import Client, ConnectionLost, Context, LocalError, Server, StepFailed, SyncContext, ToolFailed
from dovetail.middleware import Exchange, Proceed

EVERY = pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
ASKING = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
PATIENCE = 10

user: ContextVar[str] = ContextVar("user", default="nobody")


class TestCancelling:
    @EVERY
    async def test_a_cancelled_request_raises_where_the_handler_waits(self, revision: str):
        server, ended = Server("s"), threading.Event()
        started = asyncio.Event()
        loop = asyncio.get_running_loop()
        caught: list[str] = []

        async def forever() -> None:
            loop.call_soon_threadsafe(started.set)
            await asyncio.Event().wait()

        @server.tool
        def hold(ctx: SyncContext) -> str:
            try:
                ctx.step("wait", forever)
            except asyncio.CancelledError as problem:
                caught.append(str(problem))
                try:
                    ctx.progress(1)
                except asyncio.CancelledError as again:
                    caught.append(str(again))
                raise
            finally:
                ended.set()
            return ""

        async with Client(server, revision=revision) as client:
            call = asyncio.create_task(client.call("hold"))
            await started.wait()
            call.cancel()
            assert await asyncio.to_thread(ended.wait, PATIENCE)
            with pytest.raises(asyncio.CancelledError):
                await call
        assert caught == ["the request was cancelled"] * 2

    async def test_a_tool_that_runs_out_of_time_ends_at_its_next_wait(self):
        server, go_on, ended = Server("s"), threading.Event(), threading.Event()

        @server.tool(timeout=0.05)
        def slow(ctx: SyncContext) -> str:
            go_on.wait(PATIENCE)
            try:
                ctx.progress(1)
            except asyncio.CancelledError:
                ended.set()
                raise
            return "too late"

        async with Client(server) as client:
            with pytest.raises(ToolFailed, match="did not finish within"):
                await client.call("slow")
            go_on.set()
            assert await asyncio.to_thread(ended.wait, PATIENCE)

    @ASKING
    async def test_a_handler_that_asks_releases_its_thread_when_its_client_goes(self, revision: str):
        server, asked, released = Server("s"), asyncio.Event(), threading.Event()

        @server.tool
        def ask(ctx: SyncContext) -> str:
            try:
                return ctx.elicit("Who?", str).data
            finally:
                released.set()

        async def never(question: object) -> Any:
            asked.set()
            await asyncio.Event().wait()

        async with Client(server, revision=revision, on_elicit=never) as client:
            call = asyncio.create_task(client.call("ask"))
            await asked.wait()
        assert await asyncio.to_thread(released.wait, PATIENCE)
        with pytest.raises(ConnectionLost):
            await call


class TestSteps:
    @EVERY
    async def test_a_plain_step_runs_in_the_thread_of_its_handler(self, revision: str):
        server = Server("s")

        @server.tool
        def same(ctx: SyncContext) -> bool:
            return ctx.step("where", threading.get_ident) == threading.get_ident()

        async with Client(server, revision=revision) as client:
            assert (await client.call("same")).text == "true"

    async def test_steps_do_not_wait_for_threads_that_wait_for_them(self):
        server, meet = Server("s"), threading.Barrier(32)

        @server.tool
        def crowd(ctx: SyncContext) -> int:
            meet.wait(PATIENCE)
            return ctx.step("work", lambda: 1)

        async with Client(server) as client:
            async with asyncio.timeout(PATIENCE):
                results = await asyncio.gather(*(client.call("crowd") for _ in range(32)))
        assert sum(result.data for result in results) == 32

    @EVERY
    @pytest.mark.parametrize("problem", [ValueError("no"), StopIteration("no")], ids=["ValueError", "StopIteration"])
    async def test_a_step_that_fails_raises_step_failed(self, revision: str, problem: Exception):
        server = Server("s")

        def fail() -> None:
            raise problem

        @server.tool
        def failing(ctx: SyncContext) -> str:
            try:
                ctx.step("fail", fail)
            except StepFailed as failure:
                return str(failure)
            return "it went well"

        async with Client(server, revision=revision) as client:
            text = (await client.call("failing")).text
            assert text.startswith("The step 'fail' failed: ") and text.endswith(f"{type(problem).__name__}: no")

    async def test_a_step_that_exits_fails_its_call_and_nothing_else(self):
        server = Server("s")

        async def leave() -> None:
            raise SystemExit(3)

        def leave_now() -> None:
            raise SystemExit(3)

        @server.tool
        def leaving(how: str, ctx: SyncContext) -> str:
            ctx.step("leave", leave if how == "async" else leave_now)
            return ""

        async with Client(server) as client:
            for how in ("async", "plain"):
                with pytest.raises(ToolFailed, match="SystemExit"):
                    await client.call("leaving", how=how)
            await client.ping()

    @ASKING
    async def test_a_question_inside_a_step_is_refused(self, revision: str):
        server = Server("s")

        @server.tool
        def ask(ctx: SyncContext) -> str:
            return ctx.step("ask", lambda: ctx.elicit("Who?", str).data)

        async with Client(server, revision=revision, on_elicit=lambda question: {"value": "me"}) as client:
            with pytest.raises(ToolFailed, match="cannot be asked inside a step"):
                await client.call("ask")


class TestSurroundings:
    async def test_context_variables_of_middleware_reach_the_handler_and_what_it_waits_for(self):
        server = Server("s")

        async def login(exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
            token = user.set("ada")
            try:
                return await proceed(exchange)
            finally:
                user.reset(token)

        async def who() -> str:
            return user.get()

        @server.tool
        def whoami(ctx: SyncContext) -> list[str]:
            seen = [user.get(), ctx.step("on the loop", who)]
            user.set("bob")
            return [*seen, ctx.step("later", who)]

        server.use(login)
        async with Client(server) as client:
            assert (await client.call("whoami")).data == ["ada", "ada", "bob"]

    async def test_threads_of_the_handler_may_use_its_context(self):
        server, reported = Server("s"), list[float]()

        @server.tool
        def spread(ctx: SyncContext) -> str:
            threads = [
                threading.Thread(target=ctx.progress, args=(1,)),
                threading.Thread(target=ctx.log.info, args=("x",)),
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return "done"

        async with Client(server) as client:
            await client.call("spread", progress=lambda done, total, text: reported.append(done))
        assert reported == [1]

    @EVERY
    async def test_notifications_are_sent_from_the_thread(self, revision: str):
        server = Server("s")

        @server.tool
        def tell(ctx: SyncContext) -> str:
            ctx.notify("notifications/x/told", {"by": "sync"})
            ctx.close_stream()
            return f"{ctx.revision} {ctx.request_id is not None}"

        @server.tool
        def tell_plainly(ctx: Context) -> str:
            ctx.notify("notifications/x/told", {"by": "plain"})
            ctx.close_stream()
            return ctx.revision

        async with Client(server, revision=revision) as client:
            assert (await client.call("tell")).text == f"{revision} True"
            assert (await client.call("tell_plainly")).text == revision


MISTAKES: dict[str, Callable[[Context], Any]] = {
    "ctx.progress": lambda ctx: ctx.progress(1),
    "ctx.log.info": lambda ctx: ctx.log.info("x"),
    "ctx.log": lambda ctx: ctx.log("info", "x"),
    "ctx.elicit": lambda ctx: ctx.elicit("Who?", str),
    "ctx.sample": lambda ctx: ctx.sample("x", max_tokens=1),
    "ctx.roots": lambda ctx: ctx.roots(),
    "ctx.step": lambda ctx: ctx.step("x", len, "x"),
    "ctx.elicit_url": lambda ctx: ctx.elicit_url("x", "https://x.example"),
    "ctx.request": lambda ctx: ctx.request("ping"),
}


class TestMistakes:
    @pytest.mark.parametrize("name", MISTAKES)
    async def test_a_plain_function_that_would_lose_a_coroutine_is_told_what_to_declare(self, name: str):
        server, mistake = Server("s"), MISTAKES[name]

        @server.tool
        def forgetful(ctx: Context) -> str:
            mistake(ctx)
            return "lost"

        async with Client(server) as client:
            with pytest.raises(ToolFailed, match=rf"{name}\(…\) has to be awaited.* declare ctx: SyncContext"):
                await client.call("forgetful")

    async def test_a_plain_function_that_returns_the_coroutine_of_an_async_one_may_use_its_context(self):
        server = Server("s")

        def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs)

            return wrapper

        @server.tool
        @decorated
        async def report(ctx: Context) -> str:
            await ctx.progress(1)
            await ctx.log.info("x")
            return await ctx.step("x", str, 5)

        async with Client(server) as client:
            assert (await client.call("report")).text == "5"

    def test_an_async_function_cannot_declare_a_sync_context(self):
        with pytest.raises(LocalError, match=r"wait\(\) is async, and SyncContext would block the event loop"):

            @Server("s").tool
            async def wait(ctx: SyncContext) -> None: ...

    async def test_a_sync_context_on_the_event_loop_is_refused(self):
        server = Server("s")

        @server.tool
        def returns_coroutine(ctx: SyncContext) -> Any:
            async def later() -> None:
                ctx.progress(1)

            return later()

        async with Client(server) as client:
            with pytest.raises(ToolFailed, match="cannot be called on an event loop"):
                await client.call("returns_coroutine")

    def test_the_blocking_twin_has_every_method(self):
        public = {name for name in dir(Context) if not name.startswith("_")}
        assert public == {name for name in dir(SyncContext) if not name.startswith("_")}
