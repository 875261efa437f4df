"""Calls that become tasks on 2026-07-28: followed by polls and pushes, asked, cancelled."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dovetail import (
    Client,
    ConnectionLost,
    Extension,
    InvalidAnswer,
    LocalError,
    Refused,
    RemoteError,
    TaskCancelled,
    TaskNotFound,
    Timeout,
    ToolFailed,
)
from dovetail.client.elicitation import Elicitation
from dovetail.client.tasks import task as task_module
from tests.client.tasks.task_server import DONE, TASKS, TaskServer, question
from tests.support.clock import Clock
from tests.support.peer import nothing_left
from tests.support.scripted import SILENCE, Error, Restartable, Scripted, dying, legacy, modern
from tests.support.waiting import settled, until

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


async def only_this_test() -> None:
    """Nothing goes on in the background."""
    await nothing_left({running for running in (asyncio.current_task(),) if running is not None})


def connecting_to(*servers: Scripted, **options: Any) -> Client:
    """A client whose server is another one after each restart."""
    client = Client(servers[0], **options)
    vars(client)["_target"] = Restartable(*servers)
    return client


async def turns_until(true: Callable[[], object]) -> None:
    """Wait without time, where a test has stopped the clock."""
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(0)
    pytest.fail("it did not happen")


class TestDeclaring:
    async def test_every_request_declares_the_extension(self):
        server = modern(tools_list={"tools": [], "resultType": "complete"})
        async with Client(server) as client:
            await client.tools()
        for message in server.asked:
            assert message["params"]["_meta"][CAPABILITIES]["extensions"] == {TASKS: {}}

    async def test_a_handshake_does_not(self):
        server = legacy()
        async with Client(server, extensions=[Extension(id="com.example/x")]):
            (declared,) = [message["params"] for message in server.asked if message.get("method") == "initialize"]
        assert declared["capabilities"]["extensions"] == {"com.example/x": {}}

    async def test_a_callers_own_declaration_is_taken_instead(self):
        server = modern()
        async with Client(server, extensions=[Extension(id=TASKS, settings={"a": 1})]):
            assert server.asked[0]["params"]["_meta"][CAPABILITIES]["extensions"] == {TASKS: {"a": 1}}


class TestWaiting:
    async def test_a_call_waits_for_its_task(self):
        server = TaskServer()
        async with Client(server) as client:
            calling = asyncio.create_task(client.call("render", scene="x"))
            await until(lambda: len(server.sent("tasks/get")) > 2)
            server.complete()
            assert (await calling).text == "done"
        assert {params["taskId"] for params in server.sent("tasks/get")} == {"task-1"}
        assert len(server.sent("tools/call")) == 1
        await only_this_test()

    async def test_a_task_that_has_ended_already_is_asked_for_once(self):
        server = TaskServer()
        server.complete()
        async with Client(server) as client:
            await client.call("render")
        assert server.methods[1:] == ["tools/call", "tasks/get"]

    async def test_pushed_changes_need_no_polls(self):
        server = TaskServer(push=True)
        async with Client(server) as client:
            calling = asyncio.create_task(client.call("render"))
            await until(lambda: len(server.sent("tasks/get")) == 2)
            server.change("working", statusMessage="half")
            server.complete()
            assert (await calling).text == "done"
        assert server.sent("subscriptions/listen")[0]["notifications"] == {"taskIds": ["task-1"]}
        # One at the beginning, and one for what happened before the subscription.
        assert len(server.sent("tasks/get")) == 2
        await only_this_test()

    async def test_a_subscription_that_ends_is_begun_again(self):
        server = TaskServer(push=True, interval=60_000)
        async with Client(server) as client:
            calling = asyncio.create_task(client.call("render"))
            await until(lambda: len(server.sent("tasks/get")) == 2)
            server.end_subscription()
            await until(lambda: server.subscription is not None)
            server.complete()
            assert (await calling).text == "done"
        assert len(server.sent("subscriptions/listen")) == 2

    async def test_a_task_that_the_server_does_not_push_is_polled(self):
        server = TaskServer(push=True)
        listen = server.answers["subscriptions/listen"]
        server.answers["subscriptions/listen"] = lambda message: listen(
            {**message, "params": {"notifications": {"taskIds": []}}}
        )
        async with Client(server) as client:
            calling = asyncio.create_task(client.call("render"))
            await until(lambda: len(server.sent("tasks/get")) > 3)
            server.subscription = None
            server.complete()
            await calling

    async def test_polls_are_never_faster_than_the_server_asks_for(self):
        server = TaskServer(interval=5000)
        async with Client(server) as client:
            calling = asyncio.create_task(client.call("render"))
            await until(lambda: "subscriptions/listen" in server.methods)
            clock = Clock()
            await clock.advance(4.9)
            assert len(server.sent("tasks/get")) == 1
            await clock.advance(0.2)
            await turns_until(lambda: len(server.sent("tasks/get")) == 2)
            server.complete()
            await settled()
            await clock.advance(5.1)
            await calling

    async def test_polls_become_rare_in_a_task_that_takes_long(self):
        server = TaskServer(interval=1000)
        async with Client(server) as client:
            calling = asyncio.create_task(client.call("render"))
            await until(lambda: "subscriptions/listen" in server.methods)
            clock = Clock()
            for _ in range(40):
                await clock.advance(1)
                await settled()
            # One a second would be 40; after 30 seconds there is one in three.
            assert 15 < len(server.sent("tasks/get")) < 32
            server.complete()
            await clock.advance(5)
            await calling

    async def test_other_tasks_of_a_server_are_none_of_our_business(self):
        server = TaskServer(push=True)
        async with Client(server) as client:
            calling = asyncio.create_task(client.call("render"))
            await until(lambda: len(server.sent("tasks/get")) == 2)
            foreign = {**server.shown("task-9"), "status": "completed", "result": DONE}
            meta = {"io.modelcontextprotocol/subscriptionId": server.subscription}
            server.peer.send({"jsonrpc": "2.0", "method": "notifications/tasks", "params": {**foreign, "_meta": meta}})
            server.complete()
            await calling

    async def test_an_older_state_that_comes_late_is_ignored(self):
        server = TaskServer(push=True, interval=60_000)
        server.version = 5
        async with Client(server, on_elicit=lambda _: {"name": "Ann"}) as client:
            task = await client.start("render")

            async def read() -> list[str]:
                return [update.message or update.status async for update in task]

            reading = asyncio.create_task(read())
            await until(lambda: len(server.sent("tasks/get")) == 2)
            server.change("working", statusMessage="new")
            server.version = 3
            server.change("working", statusMessage="old")
            server.version = 9
            server.complete()
            assert await reading == ["working", "new", "completed"]

    async def test_new_messages_are_reported_as_progress(self):
        server = TaskServer(push=True)
        reports: list[Any] = []
        async with Client(server) as client:
            calling = asyncio.create_task(client.call("render", progress=lambda *report: reports.append(report)))
            await until(lambda: len(server.sent("tasks/get")) == 2)
            server.change("working", statusMessage="frame 1")
            await until(lambda: reports)
            server.change("working", statusMessage="frame 2")
            await until(lambda: len(reports) == 2)
            server.complete()
            await calling
        assert reports == [(1, None, "frame 1"), (2, None, "frame 2")]

    async def test_a_server_that_is_overloaded_for_a_moment_does_no_harm(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("dovetail.transports.reconnection._jitter", lambda *_: 0.0)
        server = TaskServer()
        failures = [Error(-32603, "busy"), Error(-32603, "busy")]
        server.complete()
        server.answers["tasks/get"] = lambda message: failures.pop() if failures else server.shown("task-1")
        async with Client(server) as client:
            assert (await client.call("render")).text == "done"

    async def test_a_server_that_is_lost_ends_the_wait(self):
        server = TaskServer()
        server.answers["tasks/get"] = dying()
        async with connecting_to(server) as client:
            with pytest.raises(ConnectionLost):
                await client.call("render")

    async def test_a_server_that_is_restarted_goes_on_with_its_task(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("dovetail.transports.reconnection._jitter", lambda *_: 0.0)
        first, second = TaskServer(push=True), TaskServer(push=True)
        first.answers["tasks/get"] = dying()
        async with connecting_to(first, second, restart=True) as client:
            calling = asyncio.create_task(client.call("render"))
            await until(lambda: second.subscription is not None)
            second.complete()
            assert (await calling).text == "done"


class TestEnding:
    async def test_a_result_with_is_error_is_that_of_a_plain_call(self):
        server = TaskServer()
        server.change("completed", result={**DONE, "isError": True})
        async with Client(server) as client:
            with pytest.raises(ToolFailed, match="done"):
                await client.call("render")
            assert (await client.call("render", check=False)).is_error

    async def test_a_task_that_failed_raises_its_error(self):
        server = TaskServer()
        server.change("failed", error={"code": -32099, "message": "broken", "data": {"why": 1}})
        async with Client(server) as client:
            with pytest.raises(RemoteError, match="broken") as caught:
                await client.call("render")
        assert (caught.value.code, caught.value.data) == (-32099, {"why": 1})

    async def test_a_failure_without_an_error_has_the_message_of_the_status(self):
        server = TaskServer()
        server.change("failed", statusMessage="out of paper")
        async with Client(server) as client:
            with pytest.raises(RemoteError, match="out of paper"):
                await client.call("render")

    async def test_a_task_that_was_cancelled_elsewhere_raises(self):
        server = TaskServer()
        server.change("cancelled", statusMessage="by the operator")
        async with Client(server) as client:
            with pytest.raises(TaskCancelled, match="by the operator"):
                await client.call("render")

    async def test_a_task_that_is_gone_raises_not_found(self):
        server = TaskServer()
        server.answers["tasks/get"] = Error(-32602, "Task has expired")
        async with Client(server) as client:
            with pytest.raises(TaskNotFound, match="expired"):
                await client.call("render")

    async def test_the_data_of_a_task_get_their_type(self):
        server = TaskServer()
        server.change("completed", result={**DONE, "structuredContent": {"n": 4}})
        server.answers["tools/list"] = {"tools": [], "resultType": "complete"}
        async with Client(server) as client:
            assert (await client.call("render", returns=dict[str, int])).data == {"n": 4}
            task = await client.start("render", returns=dict[str, str])
            with pytest.raises(InvalidAnswer, match="something else"):
                await task.result()

    @pytest.mark.parametrize(
        ("state", "problem"),
        [
            ({"status": "completed"}, "no result"),
            ({"status": "done"}, "cannot be read"),
            ({"status": "completed", "result": {"content": 5}}, "Invalid result"),
            ({"status": "completed", "result": {"resultType": "input_required", "requestState": "x"}}, "InputRequired"),
            ({"status": "failed", "error": {"code": "x"}}, "error of the task"),
            ({"status": "input_required", "inputRequests": {"a": {"method": "ping"}}}, "cannot be read"),
            ({"status": "working", "other": "task-2"}, "another task"),
            ({"status": "working", "resultType": "task"}, "only a call of a tool"),
        ],
    )
    async def test_invalid_states_are_refused(self, state: dict[str, Any], problem: str):
        server = TaskServer()
        server.answers["tasks/get"] = lambda _: {**server.shown(state.get("other", "task-1")), **state}
        async with Client(server) as client:
            with pytest.raises(InvalidAnswer, match=problem):
                await client.call("render")

    async def test_nothing_but_a_call_becomes_a_task(self):
        server = TaskServer()
        server.answers["resources/read"] = server.answers["tools/call"]
        async with Client(server) as client:
            with pytest.raises(InvalidAnswer, match="only a call of a tool may become a task"):
                await client.read("x:y")

    async def test_a_task_without_an_id_is_refused(self):
        server = TaskServer()
        server.answers["tools/call"] = {"resultType": "task", "status": "working"}
        async with Client(server) as client:
            with pytest.raises(InvalidAnswer, match="taskId"):
                await client.call("render")


class TestQuestions:
    async def test_the_questions_of_a_task_are_answered(self):
        server = TaskServer()
        server.on_update = lambda _: server.complete()
        server.ask(who=question())
        async with Client(server, on_elicit=lambda _: {"name": "Ann"}) as client:
            assert (await client.call("render")).text == "done"
        answers = {"who": {"action": "accept", "content": {"name": "Ann"}}}
        assert [params["inputResponses"] for params in server.sent("tasks/update")] == [answers]

    async def test_a_question_is_asked_once_although_it_is_shown_again_and_again(self):
        asked: list[str] = []
        answered = asyncio.Event()

        async def answer(elicitation: Elicitation) -> Any:
            asked.append(elicitation.message)
            await answered.wait()
            return {"name": "Ann"}

        server = TaskServer()
        server.ask(who=question())
        async with Client(server, on_elicit=answer) as client:
            calling = asyncio.create_task(client.call("render"))
            await until(lambda: len(server.sent("tasks/get")) > 3)
            answered.set()
            await until(lambda: server.sent("tasks/update"))
            shown = len(server.sent("tasks/get"))
            await until(lambda: len(server.sent("tasks/get")) > shown + 2)
            server.complete()
            await calling
        assert asked == ["Who?"]
        assert len(server.sent("tasks/update")) == 1

    async def test_each_answer_is_sent_when_it_is_there(self):
        late = asyncio.Event()

        async def answer(elicitation: Elicitation) -> Any:
            if elicitation.message == "Late?":
                await late.wait()
            return {"name": elicitation.message}

        server = TaskServer()
        server.ask(a=question("Late?"), b=question("Early?"))
        async with Client(server, on_elicit=answer) as client:
            calling = asyncio.create_task(client.call("render"))
            await until(lambda: server.sent("tasks/update"))
            server.ask(a=question("Late?"))
            late.set()
            await until(lambda: len(server.sent("tasks/update")) == 2)
            server.complete()
            await calling
        assert [list(params["inputResponses"]) for params in server.sent("tasks/update")] == [["b"], ["a"]]

    async def test_a_question_that_is_withdrawn_is_closed(self):
        closed = asyncio.Event()

        async def answer(_: Elicitation) -> Any:
            try:
                await asyncio.Event().wait()
            finally:
                closed.set()

        server = TaskServer()
        server.ask(who=question())
        async with Client(server, on_elicit=answer) as client:
            calling = asyncio.create_task(client.call("render"))
            await until(lambda: len(server.sent("tasks/get")) > 1)
            server.change("working")
            await closed.wait()
            assert not calling.done()
            server.complete()
            await calling
        assert not server.sent("tasks/update")

    async def test_sampling_and_roots_are_answered_too(self, tmp_path: Any):
        sample = {
            "method": "sampling/createMessage",
            "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 9},
        }
        server = TaskServer()
        got: dict[str, Any] = {}

        def take(answers: dict[str, Any]) -> None:
            got.update(answers)
            if len(got) == 2:
                server.complete()

        server.on_update = take
        server.ask(model=sample, roots={"method": "roots/list"})
        async with Client(server, on_sample=lambda _: "Hello", roots=[tmp_path]) as client:
            await client.call("render")
        assert got["model"]["content"]["text"] == "Hello"
        assert got["roots"]["roots"][0]["uri"] == tmp_path.as_uri()

    async def test_a_question_without_a_handler_ends_the_call_and_cancels_the_task(self):
        server = TaskServer()
        server.ask(a=question(), b={"method": "roots/list"})
        asked: list[Any] = []
        async with Client(server, on_elicit=asked.append) as client:
            with pytest.raises(Refused, match="no roots for"):
                await client.call("render")
        assert not asked
        assert len(server.sent("tasks/cancel")) == 1

    async def test_what_a_handler_raises_reaches_the_caller(self):
        def fail(_: Elicitation) -> Any:
            raise ZeroDivisionError("oops")

        server = TaskServer()
        server.ask(a=question())
        async with Client(server, on_elicit=fail) as client:
            with pytest.raises(ZeroDivisionError, match="oops"):
                await client.call("render")
        assert len(server.sent("tasks/cancel")) == 1

    async def test_rounds_are_limited_as_those_of_a_plain_call_are(self):
        server = TaskServer()
        server.on_update = lambda answers: server.ask(**{f"{min(answers)}x": question()})
        server.ask(a=question())
        async with Client(server, on_elicit=lambda _: None, max_rounds=3) as client:
            with pytest.raises(Refused, match="more than 3 times"):
                await client.call("render")

    async def test_an_answer_that_is_refused_for_a_question_that_is_gone_does_no_harm(self):
        def refuse(_: Any) -> Any:
            server.complete()
            return Error(-32602, "no such task")

        server = TaskServer()
        server.on_update = refuse
        server.ask(a=question())
        async with Client(server, on_elicit=lambda _: None) as client:
            assert (await client.call("render")).text == "done"

    async def test_an_answer_that_is_refused_for_an_open_question_raises(self):
        server = TaskServer()
        server.on_update = lambda _: Error(-32000, "not that")
        server.ask(a=question())
        async with Client(server, on_elicit=lambda _: None) as client:
            with pytest.raises(RemoteError, match="not that"):
                await client.call("render")


class TestCancelling:
    async def test_a_call_that_is_cancelled_cancels_its_task(self):
        server = TaskServer()
        async with Client(server) as client:
            calling = asyncio.create_task(client.call("render"))
            await until(lambda: server.sent("tasks/get"))
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            assert [params["taskId"] for params in server.sent("tasks/cancel")] == ["task-1"]
        assert "notifications/cancelled" not in server.methods or all(
            message["params"]["requestId"] != 2
            for message in server.asked
            if message.get("method") == "notifications/cancelled"
        )
        await only_this_test()

    async def test_a_call_that_times_out_cancels_its_task(self):
        server = TaskServer()
        async with Client(server) as client:
            with pytest.raises(Timeout, match=r"not ended within 0\.05 s"):
                await client.call("render", timeout=0.05)
            assert len(server.sent("tasks/cancel")) == 1

    async def test_the_timeout_of_the_client_is_for_each_request(self):
        server = TaskServer(interval=50)
        async with Client(server, timeout=0.1) as client:
            calling = asyncio.create_task(client.call("render"))
            await until(lambda: len(server.sent("tasks/get")) > 4)
            server.complete()
            await calling

    async def test_changes_extend_a_timeout_up_to_the_maximum(self):
        server = TaskServer(push=True)
        async with Client(server, max_timeout=50) as client:
            reports: list[Any] = []
            calling = asyncio.create_task(client.call("render", timeout=20, progress=lambda *it: reports.append(it)))
            await until(lambda: len(server.sent("tasks/get")) == 2)
            clock = Clock()
            for number in range(4):
                await clock.advance(12)
                assert not calling.done()
                server.change("working", statusMessage=str(number))
                await turns_until(lambda seen=number: len(reports) > seen)
            await clock.advance(3)
            with pytest.raises(Timeout, match="max_timeout"):
                await calling

    async def test_the_time_for_answers_counts_towards_no_timeout(self):
        answered, asked = asyncio.Event(), asyncio.Event()

        async def answer(_: Elicitation) -> Any:
            asked.set()
            await answered.wait()

        server = TaskServer(push=True)
        server.on_update = lambda _: server.complete()
        server.ask(a=question())
        async with Client(server, on_elicit=answer) as client:
            calling = asyncio.create_task(client.call("render", timeout=5))
            await asked.wait()
            clock = Clock()
            await clock.advance(40)
            assert not calling.done()
            answered.set()
            assert (await calling).text == "done"

    async def test_a_server_that_does_not_confirm_a_cancellation_delays_nobody(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(task_module, "CANCEL_SECONDS", 0.01)
        server = TaskServer()
        server.answers["tasks/cancel"] = Error(-32600, "never")
        async with Client(server) as client:
            with pytest.raises(Timeout):
                await client.call("render", timeout=0.02)


class TestTask:
    async def test_a_task_is_followed_by_hand(self):
        server = TaskServer(push=True)
        async with Client(server) as client:
            task = await client.start("render", scene="x")
            assert (task.id, task.tool, task.status, task.message) == ("task-1", "render", "working", None)
            updates = aiter(task)
            assert (await anext(updates)).status == "working"
            await until(lambda: len(server.sent("tasks/get")) == 2)
            server.change("working", statusMessage="frame 3")
            update = await anext(updates)
            assert (update.status, update.message, update.ttl) == ("working", "frame 3", 60.0)
            server.complete()
            assert [update.status async for update in updates] == ["completed"]
            assert (task.status, task.message) == ("completed", None)
            assert (await task.result()).text == "done"
            assert server.sent("tools/call")[0]["arguments"] == {"scene": "x"}
        await only_this_test()

    async def test_several_wait_for_one_task_and_it_is_followed_once(self):
        server = TaskServer(push=True)
        async with Client(server) as client:
            task = await client.start("render")
            waiting = [asyncio.create_task(task.result()) for _ in range(3)]
            await until(lambda: len(server.sent("tasks/get")) == 2)
            waiting[0].cancel()
            server.complete()
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert isinstance(results[0], asyncio.CancelledError)
            assert [result.text for result in results[1:] if not isinstance(result, BaseException)] == ["done"] * 2
        assert len(server.sent("subscriptions/listen")) == 1

    async def test_a_wait_that_ends_does_not_cancel_the_task(self):
        server = TaskServer()
        async with Client(server) as client:
            task = await client.start("render")
            with pytest.raises(Timeout):
                await task.result(timeout=0.03)
            server.complete()
            assert (await task.result()).text == "done"
        assert not server.sent("tasks/cancel")

    async def test_a_question_that_a_wait_left_open_is_asked_again(self):
        asked: list[str] = []

        async def answer(elicitation: Elicitation) -> Any:
            asked.append(elicitation.message)
            if len(asked) == 1:
                await asyncio.Event().wait()

        server = TaskServer()
        server.on_update = lambda _: server.complete()
        server.ask(a=question())
        async with Client(server, on_elicit=answer) as client:
            task = await client.start("render")
            waiting = asyncio.create_task(task.result())
            await until(lambda: asked)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert (await task.result()).text == "done"
        assert len(asked) == 2

    async def test_a_task_is_cancelled_by_hand(self):
        server = TaskServer()
        async with Client(server) as client:
            task = await client.start("render")
            await task.cancel()
            with pytest.raises(TaskCancelled, match="stopped"):
                await task.result()
            assert task.status == "cancelled"
            await task.cancel()
        assert len(server.sent("tasks/cancel")) == 1

    async def test_a_task_is_found_by_its_reference(self):
        server = TaskServer()
        async with Client(server) as client:
            saved = (await client.start("render")).reference
        server.complete()
        async with Client(server) as client:
            task = client.task(saved, returns=str)
            assert (task.id, task.tool, task.status) == ("task-1", "render", None)
            assert (await task.refresh()).status == "completed"
            assert (await task.result()).data == "done"

    async def test_the_id_is_not_in_the_text_of_a_task(self):
        server = TaskServer()
        async with Client(server) as client:
            task = await client.start("render")
            assert repr(task) == "<Task 'render' working>"

    async def test_a_revision_without_tasks_has_no_references(self):
        server = TaskServer()
        async with Client(server) as client:
            saved = (await client.start("render")).reference
        old = Scripted(initialize={**legacy().answers["initialize"], "protocolVersion": "2025-06-18"}, ping={})
        async with Client(old) as client:
            with pytest.raises(LocalError, match="2025-06-18, which has no tasks"):
                client.task(saved)

    async def test_an_error_of_the_call_is_raised_at_once(self):
        server = TaskServer()
        server.answers["tools/call"] = Error(-32602, "Unknown tool: render")
        async with Client(server) as client:
            with pytest.raises(RemoteError, match="Unknown tool"):
                await client.start("render")


class TestCallsInThisProcess:
    async def test_a_call_that_is_no_task_runs_in_the_background(self):
        called, released = asyncio.Event(), asyncio.Event()

        async def answer(_: Any) -> Any:
            called.set()
            await released.wait()
            return DONE

        server = modern(tools_call=answer)
        async with Client(server, timeout=5) as client:
            task = await client.start("add")
            await called.wait()
            assert (task.id, task.status) == (None, "working")
            with pytest.raises(LocalError, match="has no reference"):
                assert task.reference
            released.set()
            assert [update.status async for update in task] == ["working", "completed"]
            assert (await task.result()).text == "done"
            assert (await task.refresh()).status == "completed"
        await only_this_test()

    async def test_its_progress_is_its_message(self):
        server = modern()

        def answer(message: dict[str, Any]) -> Any:
            token = message["params"]["_meta"]["progressToken"]
            for number, extra in ((1, {"total": 4}), (2, {"message": "half"})):
                params = {"progressToken": token, "progress": number, **extra}
                server.peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            return DONE

        server.answers["tools/call"] = answer
        async with Client(server) as client:
            task = await client.start("add")
            assert [update.message async for update in task] == [None, "1 of 4", "half", None]

    async def test_it_fails_as_a_call_does(self):
        server = modern(tools_call=Error(-32050, "broken"))
        async with Client(server) as client:
            task = await client.start("add")
            with pytest.raises(RemoteError, match="broken"):
                await task.result()
            assert task.status == "failed"

    async def test_it_is_cancelled_as_a_call_is(self):
        server = modern(tools_call=SILENCE)
        async with Client(server) as client:
            task = await client.start("add")
            await until(lambda: "tools/call" in server.methods)
            await task.cancel()
            with pytest.raises(TaskCancelled):
                await task.result()
            await until(lambda: "notifications/cancelled" in server.methods)

    async def test_it_ends_with_the_client(self):
        server = modern(tools_call=SILENCE)
        async with Client(server) as client:
            task = await client.start("add")
            waiting = asyncio.create_task(task.result())
            await until(lambda: "tools/call" in server.methods)
        with pytest.raises(Exception, match="the client was closed"):
            await waiting

    async def test_a_server_with_tasks_may_answer_at_once(self):
        server = TaskServer()
        server.answers["tools/call"] = DONE
        async with Client(server) as client:
            task = await client.start("add")
            assert (task.id, task.status) == (None, "completed")
            assert (await task.result()).text == "done"

    async def test_a_call_that_becomes_a_task_later_gets_its_id_then(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("dovetail.client.tasks.calls.DECISION_SECONDS", 0.0)
        server, released = TaskServer(), asyncio.Event()
        create = server.answers["tools/call"]

        async def answer(message: Any) -> Any:
            await released.wait()
            return create(message)

        server.answers["tools/call"] = answer
        async with Client(server) as client:
            task = await client.start("render")
            assert task.id is None
            waiting = asyncio.create_task(task.result())
            released.set()
            await until(lambda: task.id == "task-1")
            server.complete()
            assert (await waiting).text == "done"
