"""A server's lifespan: entered before the first client, left after the last, by one task."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.protocol.errors import ConnectionLost
from dovetail.server.lifespan import ApplicationLifespan, SharedLifespan
from tests.support.http import serving
from tests.support.peer import nothing_left
from tests.support.raw_http import Site, text_of
from tests.support.waiting import settled, until


class RecordingLifespan:
    """A context that records when it is entered and left, and by which task."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.tasks: list[object] = []
        self.fail_to_enter = False
        self.fail_to_leave = False
        self.may_enter = asyncio.Event()
        self.may_leave = asyncio.Event()
        self.may_enter.set()
        self.may_leave.set()

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[str]:
        self.tasks.append(asyncio.current_task())
        await self.may_enter.wait()
        if self.fail_to_enter:
            raise ValueError("no database")
        self.steps.append("entered")
        try:
            async with asyncio.TaskGroup():
                yield "state"
        finally:
            self.tasks.append(asyncio.current_task())
            await self.may_leave.wait()
            self.steps.append("left")
        if self.fail_to_leave:
            raise ValueError("cannot close")


class TestSharedLifespan:
    async def test_the_first_user_enters_and_the_last_one_leaves(self):
        recorded = RecordingLifespan()
        shared = SharedLifespan(recorded)
        assert await asyncio.gather(*(shared.enter() for _ in range(3))) == ["state"] * 3
        await shared.leave()
        await shared.leave()
        assert recorded.steps == ["entered"]
        await shared.leave()
        assert recorded.steps == ["entered", "left"]

    async def test_the_same_task_enters_and_leaves_the_context(self):
        recorded = RecordingLifespan()
        shared = SharedLifespan(recorded)
        await asyncio.create_task(shared.enter())
        await asyncio.create_task(shared.leave())
        assert recorded.tasks[0] is recorded.tasks[1]

    async def test_a_lifespan_can_be_entered_again(self):
        recorded = RecordingLifespan()
        shared = SharedLifespan(recorded)
        for _ in range(2):
            await shared.enter()
            await shared.leave()
        assert recorded.steps == ["entered", "left"] * 2

    async def test_a_lifespan_is_entered_again_only_after_it_has_been_left(self):
        recorded = RecordingLifespan()
        recorded.may_leave.clear()
        shared = SharedLifespan(recorded)
        await shared.enter()
        leaving = asyncio.create_task(shared.leave())
        await settled()
        entering = asyncio.create_task(shared.enter())
        await settled()
        assert recorded.steps == ["entered"]
        recorded.may_leave.set()
        await entering
        await leaving
        assert recorded.steps == ["entered", "left", "entered"]
        await shared.leave()

    def test_a_lifespan_works_on_one_loop_after_another(self):
        steps: list[str] = []

        @asynccontextmanager
        async def lifespan() -> AsyncIterator[None]:
            steps.append("entered")
            yield
            steps.append("left")

        shared = SharedLifespan(lifespan)

        async def use() -> None:
            await shared.enter()
            await shared.leave()

        for _ in range(2):
            asyncio.run(use())
        assert steps == ["entered", "left"] * 2


class TestFailures:
    async def test_a_failure_to_enter_is_raised_for_every_waiting_user(self):
        recorded = RecordingLifespan()
        recorded.fail_to_enter = True
        shared = SharedLifespan(recorded)
        outcomes = await asyncio.gather(*(shared.enter() for _ in range(3)), return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["no database"] * 3

    async def test_a_failure_to_enter_does_not_prevent_the_next_attempt(self):
        recorded = RecordingLifespan()
        recorded.fail_to_enter = True
        shared = SharedLifespan(recorded)
        with pytest.raises(ValueError, match="no database"):
            await shared.enter()
        recorded.fail_to_enter = False
        assert await shared.enter() == "state"
        await shared.leave()
        assert recorded.steps == ["entered", "left"]

    async def test_a_failure_to_leave_is_raised_for_the_last_user(self):
        recorded = RecordingLifespan()
        recorded.fail_to_leave = True
        shared = SharedLifespan(recorded)
        await shared.enter()
        await shared.enter()
        await shared.leave()
        with pytest.raises(ValueError, match="cannot close"):
            await shared.leave()


class TestCancellation:
    async def test_a_lifespan_is_not_entered_when_every_waiting_user_is_cancelled(self):
        recorded = RecordingLifespan()
        recorded.may_enter.clear()
        shared = SharedLifespan(recorded)
        before = asyncio.all_tasks()
        entering = asyncio.create_task(shared.enter())
        await settled()
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await nothing_left(before)
        recorded.may_enter.set()
        assert await shared.enter() == "state"
        await shared.leave()
        assert recorded.steps == ["entered", "left"]

    async def test_other_waiting_users_are_not_affected_by_a_cancelled_one(self):
        recorded = RecordingLifespan()
        recorded.may_enter.clear()
        shared = SharedLifespan(recorded)
        first, second = (asyncio.create_task(shared.enter()) for _ in range(2))
        await settled()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        recorded.may_enter.set()
        assert await second == "state"
        await shared.leave()
        assert recorded.steps == ["entered", "left"]

    async def test_a_cancelled_user_does_not_cut_the_teardown_short(self):
        recorded = RecordingLifespan()
        recorded.may_leave.clear()
        shared = SharedLifespan(recorded)
        await shared.enter()
        leaving = asyncio.create_task(shared.leave())
        await settled()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        recorded.may_leave.set()
        await until(lambda: recorded.steps == ["entered", "left"])


def make_server(recorded: RecordingLifespan) -> Server:
    server = Server("s", lifespan=lambda server: recorded())

    @server.tool
    async def state(ctx: Context) -> str:
        return ctx.lifespan

    return server


@asynccontextmanager
async def shared(recorded: RecordingLifespan) -> AsyncIterator[None]:
    """One use of a lifespan, as a server's sessions have it."""
    lifespan = SharedLifespan(recorded)
    await lifespan.enter()
    yield
    await lifespan.leave()


class TestServerLifespan:
    async def test_handlers_see_what_the_lifespan_yields(self):
        async with Client(make_server(RecordingLifespan())) as client:
            assert (await client.call("state")).data == "state"

    async def test_a_lifespan_is_entered_once_for_several_clients(self):
        recorded = RecordingLifespan()
        server = make_server(recorded)
        async with Client(server) as one:
            async with Client(server) as two:
                assert (await two.call("state")).data == "state"
            assert recorded.steps == ["entered"]
            assert (await one.call("state")).data == "state"
        assert recorded.steps == ["entered", "left"]
        assert len(set(recorded.tasks)) == 1

    async def test_handlers_end_before_the_lifespan_is_left(self):
        recorded = RecordingLifespan()
        server = Server("s", lifespan=lambda server: recorded())
        begun = asyncio.Event()

        @server.tool
        async def wait() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                recorded.steps.append("handler ended")

        async with Client(server) as client:
            asked = asyncio.create_task(client.call("wait"))
            await begun.wait()
        assert recorded.steps == ["entered", "handler ended", "left"]
        assert isinstance((await asyncio.gather(asked, return_exceptions=True))[0], ConnectionLost)

    async def test_a_lifespan_that_fails_is_one_typed_error_for_the_client(self, caplog: pytest.LogCaptureFixture):
        caplog.set_level(logging.ERROR)
        recorded = RecordingLifespan()
        recorded.fail_to_enter = True
        server = make_server(recorded)
        for _ in range(2):
            with pytest.raises(ConnectionLost, match="the server failed: ValueError: no database"):
                await Client(server).open()
        recorded.fail_to_enter = False
        async with Client(server) as client:
            assert (await client.call("state")).data == "state"

    async def test_a_lifespan_that_fails_while_it_is_left_is_logged(self, caplog: pytest.LogCaptureFixture):
        recorded = RecordingLifespan()
        recorded.fail_to_leave = True
        async with Client(make_server(recorded)) as client:
            await client.ping()
        assert "cannot close" in caplog.text


class TestApplicationLifespan:
    """The lifespan of a server under an ASGI application, which may run without a lifespan of its own."""

    @asynccontextmanager
    async def served(self, recorded: RecordingLifespan, **options: Any) -> AsyncIterator[Site]:
        endpoint = make_server(recorded).asgi()
        async with serving(endpoint, **options) as url, Site(url) as site:
            yield site
        await endpoint.close()

    @pytest.mark.parametrize("lifespan", ["on", "off"])
    async def test_a_lifespan_is_entered_once_with_or_without_that_of_the_application(self, lifespan: str) -> None:
        recorded = RecordingLifespan()
        async with self.served(recorded, lifespan=lifespan) as site:
            assert recorded.steps == (["entered"] if lifespan == "on" else [])
            answers = await asyncio.gather(*(site.call("state") for _ in range(5)))
            for answer in answers:
                assert text_of(await answer.json()) == "state"
            await site.session("2025-11-25")
            assert recorded.steps == ["entered"]
            tasks = [task.get_name() for task in asyncio.all_tasks()]
            assert [name for name in tasks if name.startswith("dovetail-lifespan")] == ["dovetail-lifespan"]
        assert recorded.steps == ["entered", "left"]

    async def test_a_mounted_application_needs_no_lifespan_of_the_outer_one(self) -> None:
        from starlette.applications import Starlette
        from starlette.routing import Mount

        recorded = RecordingLifespan()
        endpoint = make_server(recorded).asgi(path="/")
        app: Any = Starlette(routes=[Mount("/tools", app=endpoint)])
        async with serving(app) as url, Site(url, "/tools/") as site:
            assert text_of(await (await site.call("state")).json()) == "state"
        await endpoint.close()
        assert recorded.steps == ["entered", "left"]

    async def test_a_failure_is_a_500_and_the_next_request_tries_again(self) -> None:
        recorded = RecordingLifespan()
        recorded.fail_to_enter = True
        async with self.served(recorded, lifespan="off") as site:
            first = await site.call("state")
            assert first.status == 500
            assert "no database" not in str(await first.json())
            recorded.fail_to_enter = False
            assert text_of(await (await site.call("state")).json()) == "state"
        assert recorded.steps == ["entered", "left"] and len(recorded.tasks) == 3

    async def test_a_failure_at_startup_keeps_the_server_from_starting(self) -> None:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "lifespan.startup"}

        async def send(event: Any) -> None:
            sent.append(event)

        recorded = RecordingLifespan()
        recorded.fail_to_enter = True
        await make_server(recorded).asgi()({"type": "lifespan"}, receive, send)
        assert sent == [{"type": "lifespan.startup.failed", "message": "ValueError: no database"}]

    async def test_a_failure_at_the_end_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        recorded = RecordingLifespan()
        recorded.fail_to_leave = True
        async with self.served(recorded, lifespan="off") as site:
            await site.call("state")
        assert "cannot close" in caplog.text

    async def test_a_request_that_is_cancelled_does_not_stop_the_start_up(self) -> None:
        recorded = RecordingLifespan()
        recorded.may_enter.clear()
        lifespan = ApplicationLifespan(lambda: shared(recorded))
        first, second = (asyncio.create_task(lifespan.enter()) for _ in range(2))
        await settled()
        first.cancel()
        await settled()
        recorded.may_enter.set()
        await second
        assert first.cancelled() and lifespan.entered and recorded.steps == ["entered"]

    async def test_a_start_up_under_way_is_left_when_the_application_ends(self) -> None:
        recorded = RecordingLifespan()
        recorded.may_enter.clear()
        lifespan = ApplicationLifespan(lambda: shared(recorded))
        entering, leaving = asyncio.create_task(lifespan.enter()), asyncio.create_task(lifespan.leave())
        await settled()
        recorded.may_enter.set()
        await asyncio.gather(entering, leaving)
        assert not lifespan.entered and recorded.steps == ["entered", "left"]
