"""Calls that run as tasks on 2025-11-25, with a real server and with one that does what a test says."""

import asyncio
from typing import Any

import pytest

from dovetail import (
    Client,
    Context,
    InvalidAnswer,
    LocalError,
    OutcomeUnknown,
    RemoteError,
    Server,
    TaskCancelled,
    TaskNotFound,
    ToolFailed,
)
from dovetail.protocol.errors import outcome_unknown
from tests.support.oracle import Oracle
from tests.support.scripted import SILENCE, Error, Scripted, legacy, welcome
from tests.support.waiting import until

REVISION = "2025-11-25"
DONE = {"content": [{"type": "text", "text": "done"}]}


def studio() -> Server:
    server = Server("studio")

    @server.tool(task="required")
    async def render(scene: str, ctx: Context) -> str:
        await ctx.status(f"rendering {scene}")
        answer = await ctx.sample("Which style?", max_tokens=9)
        return f"{scene} in {answer.text}"

    @server.tool(task="required")
    async def sign(scene: str, ctx: Context) -> dict[str, str]:
        return {scene: (await ctx.sample("Who?", max_tokens=9)).text}

    @server.tool(task="optional")
    async def fail() -> str:
        raise ValueError("out of paint")

    @server.tool(task="optional")
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


class CoreServer(Scripted):
    """Makes a task of each call; the test changes `state`."""

    def __init__(self, support: str = "required", interval: int = 10) -> None:
        schema = {"type": "object"}
        super().__init__(
            initialize=welcome(
                protocolVersion=REVISION,
                capabilities={"tools": {}, "tasks": {"list": {}, "requests": {"tools": {"call": {}}}}},
            ),
            ping={},
            tools_list={"tools": [{"name": "t", "inputSchema": schema, "execution": {"taskSupport": support}}]},
        )
        self.state: dict[str, Any] = {"status": "working"}
        self.interval = interval
        self.answers |= {
            "tools/call": lambda _: {"task": self.shown("task-1")},
            "tasks/get": lambda message: self.shown(message["params"]["taskId"]),
            "tasks/result": DONE,
            "tasks/cancel": lambda _: self.shown("task-1"),
        }

    def shown(self, id: str) -> dict[str, Any]:
        times = {"createdAt": "2026-11-18T10:00:00Z", "lastUpdatedAt": "2026-11-18T10:00:00Z"}
        return {"taskId": id, **times, "ttl": 60_000, "pollInterval": self.interval, **self.state}

    def notify(self) -> None:
        self.peer.send({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": self.shown("task-1")})

    def sent(self, method: str) -> list[dict[str, Any]]:
        return [message["params"] for message in self.asked if message.get("method") == method]


class TestWithARealServer:
    async def test_a_tool_that_requires_tasks_is_called_as_one(self):
        oracle = Oracle()
        async with Client(studio(), revision=REVISION, on_sample=lambda _: "oil", trace=oracle) as client:
            assert (await client.call("render", scene="beach")).data == "beach in oil"
        assert oracle.sent_by("client", "tools/call")[0].params["task"] == {}
        (question,) = oracle.sent_by("server", "sampling/createMessage")
        meta = {
            "io.modelcontextprotocol/related-task": question.params["_meta"]["io.modelcontextprotocol/related-task"]
        }
        assert oracle.answer(question)["result"]["_meta"] == meta
        oracle.verdict()

    async def test_other_tools_are_called_plainly(self):
        oracle = Oracle()
        async with Client(studio(), revision=REVISION, trace=oracle) as client:
            assert (await client.call("add", a=1, b=2)).data == 3
            with pytest.raises(ToolFailed, match="out of paint"):
                await client.call("fail")
        assert all("task" not in message.params for message in oracle.sent_by("client", "tools/call"))
        assert len(oracle.sent_by("client", "tools/list")) == 1

    async def test_start_makes_a_task_where_the_tool_supports_it(self):
        async with Client(studio(), revision=REVISION, on_sample=lambda _: "oil") as client:
            task = await client.start("render", scene="town", ttl=120, returns=str)
            assert task.id is not None
            assert (await task.refresh()).ttl is not None
            assert [update.status async for update in task][-1] == "completed"
            assert (await task.result()).data == "town in oil"
            plain = await client.start("add", a=1, b=2)
            assert (plain.id, (await plain.result()).data) == (None, 3)

    async def test_progress_is_reported_for_the_lifetime_of_a_task(self):
        server = Server("studio")

        @server.tool(task="required")
        async def count(to: int, ctx: Context) -> int:
            for number in range(to):
                await ctx.progress(number, to, f"number {number}")
            return to

        reports: list[Any] = []
        async with Client(server, revision=REVISION) as client:
            await client.call("count", to=2, progress=lambda *report: reports.append(report))
            await until(lambda: len(reports) == 2)
        assert reports == [(0, 2, "number 0"), (1, 2, "number 1")]

    async def test_a_failure_of_the_tool_is_that_of_a_plain_call(self):
        async with Client(studio(), revision=REVISION) as client:
            task = await client.start("fail")
            with pytest.raises(ToolFailed, match="out of paint"):
                await task.result()
            assert task.status == "failed"
            assert (await task.result(check=False)).is_error

    async def test_a_task_is_cancelled(self):
        async with Client(studio(), revision=REVISION) as client:
            task = await client.start("wait_for_ever")
            await task.cancel()
            with pytest.raises(TaskCancelled):
                await task.result()
            await task.cancel()

    async def test_a_reference_works_on_either_generation(self):
        server = studio()
        old = Client(server, revision=REVISION, on_sample=lambda _: "oil")
        new = Client(server, revision="2026-07-28", on_sample=lambda _: "ink")
        async with old, new:
            saved = (await old.start("sign", scene="x")).reference
            assert (await new.task(saved).result()).data == {"x": "ink"}
            assert (await old.task(saved).result()).data == {"x": "ink"}


class TestFollowing:
    async def test_a_call_polls_and_fetches_its_result(self):
        server = CoreServer()
        async with Client(server, revision=REVISION) as client:
            calling = asyncio.create_task(client.call("t"))
            await until(lambda: len(server.sent("tasks/get")) > 2)
            assert not server.sent("tasks/result")
            server.state = {"status": "completed"}
            assert (await calling).text == "done"
        assert len(server.sent("tasks/result")) == 1

    async def test_a_notification_saves_a_poll(self):
        server = CoreServer(interval=60_000)
        async with Client(server, revision=REVISION) as client:
            calling = asyncio.create_task(client.call("t"))
            await until(lambda: server.sent("tasks/get"))
            server.state = {"status": "completed"}
            server.notify()
            assert (await calling).text == "done"
        assert len(server.sent("tasks/get")) == 1

    async def test_a_question_makes_the_client_wait_for_the_result(self):
        server, released = CoreServer(), asyncio.Event()

        def late(message: dict[str, Any]) -> Any:
            async def answer() -> None:
                await released.wait()
                server.state = {"status": "completed"}
                server.peer.send({"jsonrpc": "2.0", "id": message["id"], "result": DONE})

            answering.append(asyncio.create_task(answer()))
            return SILENCE

        answering: list[asyncio.Task[None]] = []
        server.answers["tasks/result"] = late
        server.state = {"status": "input_required"}
        async with Client(server, revision=REVISION, timeout=5) as client:
            calling = asyncio.create_task(client.call("t"))
            await until(lambda: server.sent("tasks/result"))
            polls = len(server.sent("tasks/get"))
            await until(lambda: len(server.sent("tasks/get")) > polls + 1)
            released.set()
            assert (await calling).text == "done"
        assert len(server.sent("tasks/result")) == 1

    async def test_the_error_of_the_call_is_the_error_of_its_task(self):
        server = CoreServer()
        server.state = {"status": "failed", "statusMessage": "broken"}
        server.answers["tasks/result"] = Error(-32603, "broken", {"why": 1})
        async with Client(server, revision=REVISION) as client:
            with pytest.raises(RemoteError, match="broken") as caught:
                await client.call("t")
        assert caught.value.data == {"why": 1}

    async def test_a_call_that_is_cancelled_cancels_its_task(self):
        server = CoreServer()
        async with Client(server, revision=REVISION) as client:
            calling = asyncio.create_task(client.call("t"))
            await until(lambda: server.sent("tasks/get"))
            server.state = {"status": "cancelled"}
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
        assert [params["taskId"] for params in server.sent("tasks/cancel")] == ["task-1"]

    async def test_a_task_that_cannot_be_cancelled_because_it_has_ended_is_no_error(self):
        server = CoreServer()
        async with Client(server, revision=REVISION) as client:
            task = await client.start("t")
            server.state = {"status": "completed"}
            server.answers["tasks/cancel"] = Error(-32602, "already completed")
            await task.cancel()
            assert (await task.result()).text == "done"

    async def test_a_task_that_is_gone_raises_not_found(self):
        server = CoreServer()
        server.answers["tasks/get"] = Error(-32602, "no such task")
        async with Client(server, revision=REVISION) as client:
            with pytest.raises(TaskNotFound):
                await client.call("t")

    async def test_the_state_of_another_task_is_refused(self):
        server = CoreServer()
        server.answers["tasks/get"] = lambda _: server.shown("task-2")
        async with Client(server, revision=REVISION) as client:
            with pytest.raises(InvalidAnswer, match="another task"):
                await client.call("t")

    async def test_a_task_that_was_not_asked_for_is_refused(self):
        server = CoreServer(support="optional")
        async with Client(server, revision=REVISION) as client:
            with pytest.raises(InvalidAnswer, match="did not ask for"):
                await client.call("t")

    async def test_tools_that_have_changed_are_listed_again(self):
        server = CoreServer(support="forbidden")
        server.answers["tools/call"] = lambda message: (
            {"task": server.shown("task-1")} if "task" in message["params"] else DONE
        )
        async with Client(server, revision=REVISION) as client:
            await client.call("t")
            server.answers["tools/list"]["tools"][0]["execution"] = {"taskSupport": "required"}
            server.peer.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            server.state = {"status": "completed"}
            await client.ping()
            await client.call("t")
        assert ["task" in params for params in server.sent("tools/call")] == [False, True]


class TestListing:
    async def test_the_tasks_of_a_server_are_listed_over_all_pages(self):
        server = CoreServer()
        server.answers["tasks/list"] = lambda message: (
            {"tasks": [server.shown("task-2")]}
            if "cursor" in message.get("params", {})
            else {"tasks": [server.shown("task-1")], "nextCursor": "more"}
        )
        async with Client(server, revision=REVISION) as client:
            tasks = await client.tasks()
            assert [(task.id, task.status) for task in tasks] == [("task-1", "working"), ("task-2", "working")]
            server.state = {"status": "completed"}
            assert (await tasks[1].result()).text == "done"

    async def test_a_server_that_lists_none_is_not_asked(self):
        for server in (legacy(), studio()):
            async with Client(server) as client:
                with pytest.raises(LocalError, match="does not list tasks"):
                    await client.tasks()


async def test_a_task_whose_outcome_is_unknown_has_ended() -> None:
    """The error is that of the task, and not one of the connection, after which a client would ask again for ever."""
    server = Server("crashing")

    @server.tool(task="required")
    async def work() -> str:
        raise outcome_unknown("its process has ended")

    async with Client(server, revision=REVISION, timeout=10) as client:
        task = await client.start("work")
        with pytest.raises(OutcomeUnknown, match="its process has ended"):
            await task.result(timeout=5)
