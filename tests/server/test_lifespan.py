"""What a server sets up before its first client and takes down after its last."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dovetail import Client, Context, Server
from dovetail.protocol.errors import ConnectionLost
from dovetail.server.lifespan import SharedLifespan
from tests.support.peer import nothing_left
from tests.support.waiting import settled, until


class Diary:
    """A context that notes when it is entered and left, and by which task."""

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
            raise ValueError("cannot let go")


class TestSharing:
    async def test_entered_for_the_first_and_left_after_the_last(self):
        diary = Diary()
        shared = SharedLifespan(diary)
        assert await asyncio.gather(*(shared.enter() for _ in range(3))) == ["state"] * 3
        await shared.leave()
        await shared.leave()
        assert diary.steps == ["entered"]
        await shared.leave()
        assert diary.steps == ["entered", "left"]

    async def test_the_same_task_enters_and_leaves(self):
        diary = Diary()
        shared = SharedLifespan(diary)
        await asyncio.create_task(shared.enter())
        await asyncio.create_task(shared.leave())
        assert diary.tasks[0] is diary.tasks[1]

    async def test_it_can_be_entered_again(self):
        diary = Diary()
        shared = SharedLifespan(diary)
        for _ in range(2):
            await shared.enter()
            await shared.leave()
        assert diary.steps == ["entered", "left"] * 2

    async def test_but_not_before_it_has_been_left(self):
        diary = Diary()
        diary.may_leave.clear()
        shared = SharedLifespan(diary)
        await shared.enter()
        leaving = asyncio.create_task(shared.leave())
        await settled()
        entering = asyncio.create_task(shared.enter())
        await settled()
        assert diary.steps == ["entered"]
        diary.may_leave.set()
        await entering
        await leaving
        assert diary.steps == ["entered", "left", "entered"]
        await shared.leave()

    def test_it_serves_one_loop_after_the_other(self):
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


class TestFailing:
    async def test_to_enter_is_told_to_all_who_wait(self):
        diary = Diary()
        diary.fail_to_enter = True
        shared = SharedLifespan(diary)
        outcomes = await asyncio.gather(*(shared.enter() for _ in range(3)), return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["no database"] * 3

    async def test_to_enter_does_not_spoil_the_next_try(self):
        diary = Diary()
        diary.fail_to_enter = True
        shared = SharedLifespan(diary)
        with pytest.raises(ValueError, match="no database"):
            await shared.enter()
        diary.fail_to_enter = False
        assert await shared.enter() == "state"
        await shared.leave()
        assert diary.steps == ["entered", "left"]

    async def test_to_leave_is_told_to_the_last(self):
        diary = Diary()
        diary.fail_to_leave = True
        shared = SharedLifespan(diary)
        await shared.enter()
        await shared.enter()
        await shared.leave()
        with pytest.raises(ValueError, match="cannot let go"):
            await shared.leave()


class TestCancelling:
    async def test_when_all_who_wait_give_up_it_is_not_entered(self):
        diary = Diary()
        diary.may_enter.clear()
        shared = SharedLifespan(diary)
        before = asyncio.all_tasks()
        entering = asyncio.create_task(shared.enter())
        await settled()
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await nothing_left(before)
        diary.may_enter.set()
        assert await shared.enter() == "state"
        await shared.leave()
        assert diary.steps == ["entered", "left"]

    async def test_others_who_wait_are_not_affected(self):
        diary = Diary()
        diary.may_enter.clear()
        shared = SharedLifespan(diary)
        first, second = (asyncio.create_task(shared.enter()) for _ in range(2))
        await settled()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        diary.may_enter.set()
        assert await second == "state"
        await shared.leave()
        assert diary.steps == ["entered", "left"]

    async def test_a_user_in_a_hurry_does_not_cut_the_teardown_short(self):
        diary = Diary()
        diary.may_leave.clear()
        shared = SharedLifespan(diary)
        await shared.enter()
        leaving = asyncio.create_task(shared.leave())
        await settled()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        diary.may_leave.set()
        await until(lambda: diary.steps == ["entered", "left"])


class TestOfAServer:
    def server(self, diary: Diary) -> Server:
        server = Server("s", lifespan=lambda server: diary())

        @server.tool
        async def state(ctx: Context) -> str:
            return ctx.lifespan

        return server

    async def test_handlers_see_what_it_yields(self):
        async with Client(self.server(Diary())) as client:
            assert (await client.call("state")).data == "state"

    async def test_it_is_entered_once_for_several_clients(self):
        diary = Diary()
        server = self.server(diary)
        async with Client(server) as one:
            async with Client(server) as two:
                assert (await two.call("state")).data == "state"
            assert diary.steps == ["entered"]
            assert (await one.call("state")).data == "state"
        assert diary.steps == ["entered", "left"]
        assert len(set(diary.tasks)) == 1

    async def test_handlers_end_before_it_is_left(self):
        diary = Diary()
        server = Server("s", lifespan=lambda server: diary())
        begun = asyncio.Event()

        @server.tool
        async def wait() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                diary.steps.append("handler ended")

        async with Client(server) as client:
            asked = asyncio.create_task(client.call("wait"))
            await begun.wait()
        assert diary.steps == ["entered", "handler ended", "left"]
        assert isinstance((await asyncio.gather(asked, return_exceptions=True))[0], ConnectionLost)

    async def test_one_that_fails_is_one_typed_error_to_the_client(self, caplog: pytest.LogCaptureFixture):
        caplog.set_level(logging.ERROR)
        diary = Diary()
        diary.fail_to_enter = True
        server = self.server(diary)
        for _ in range(2):
            with pytest.raises(ConnectionLost, match="the server failed: ValueError: no database"):
                await Client(server).open()
        diary.fail_to_enter = False
        async with Client(server) as client:
            assert (await client.call("state")).data == "state"

    async def test_one_that_cannot_be_left_is_logged(self, caplog: pytest.LogCaptureFixture):
        diary = Diary()
        diary.fail_to_leave = True
        async with Client(self.server(diary)) as client:
            await client.ping()
        assert "cannot let go" in caplog.text
