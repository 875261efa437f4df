"""Tasks of 2026-07-28, the extension `io.modelcontextprotocol/tasks`, message by message over each transport."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from dovetail import Server
from dovetail.protocol.envelope import CLIENT_CAPABILITIES, SUBSCRIPTION_ID
from tests.matrix import tasks_server
from tests.matrix.conftest import Loop
from tests.matrix.task_connections import (
    CAN_ANSWER,
    EXTENSION,
    RELATED,
    SIZE,
    STYLE,
    TRANSPORTS,
    ExtensionPeer,
    extension_peer,
    tasks_target,
)
from tests.support.http import serving
from tests.support.raw_http import Site, modern_meta
from tests.support.served import served

UNDECLARED = {CLIENT_CAPABILITIES: CAN_ANSWER}
MISSING = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
MODEL = {"role": "assistant", "content": {"type": "text", "text": "Blue"}, "model": "m"}


@pytest.fixture(params=TRANSPORTS, scope="module")
def connection(request: pytest.FixtureRequest, loop: Loop) -> Iterator[ExtensionPeer]:
    """One connection for all tests: their tasks do not meet."""
    stack = contextlib.AsyncExitStack()
    yield loop.runner.run(stack.enter_async_context(extension_peer(tasks_target(request.param))))
    loop.runner.run(stack.aclose())


@pytest.fixture
def peer(connection: ExtensionPeer) -> Iterator[ExtensionPeer]:
    """The connection; each test answers for what was said during it."""
    connection.wire.aside.clear()
    yield connection
    connection.oracle.verdict()


class TestNegotiation:
    async def test_the_extension_is_declared_and_the_capability_of_core_is_not(self, peer: ExtensionPeer) -> None:
        capabilities = (await peer.result("server/discover"))["capabilities"]
        assert capabilities["extensions"][EXTENSION] == {}
        assert "tasks" not in capabilities
        tools = (await peer.result("tools/list"))["tools"]
        assert not [tool["name"] for tool in tools if "execution" in tool]

    async def test_a_client_that_does_not_declare_it_gets_ordinary_results(self, peer: ExtensionPeer) -> None:
        """Also right after a request that declared it: each request is looked at by itself."""
        await peer.create("multiply", a=2, b=3)
        for tool in ("multiply", "quick"):
            arguments = {"a": 2, "b": 3} if tool == "multiply" else {"text": "6"}
            result = await peer.result("tools/call", name=tool, arguments=arguments, _meta=UNDECLARED)
            assert (result["resultType"], result["content"]) == ("complete", [{"type": "text", "text": "6"}])

    async def test_a_tool_that_must_be_a_task_is_refused_without_it(self, peer: ExtensionPeer) -> None:
        error = await peer.error("tools/call", name="hold_required", arguments={"key": "x"}, _meta=UNDECLARED)
        assert (error["code"], error["data"]) == (-32021, MISSING)

    @pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
    async def test_the_methods_of_tasks_are_refused_without_it(self, peer: ExtensionPeer, method: str) -> None:
        """Also for a task that exists, so that nobody learns which do."""
        id = await peer.create("multiply", a=2, b=3)
        params: dict[str, Any] = {"inputResponses": {}} if method == "tasks/update" else {}
        for each in (id, "unknown"):
            error = await peer.error(method, taskId=each, **params, _meta=UNDECLARED)
            assert (error["code"], error["data"]) == (-32021, MISSING)

    async def test_methods_of_core_do_not_exist(self, peer: ExtensionPeer) -> None:
        id = await peer.create("multiply", a=2, b=3)
        assert (await peer.error("tasks/result", taskId=id))["code"] == -32601
        assert (await peer.error("tasks/list"))["code"] == -32601

    async def test_the_task_param_of_core_is_ignored(self, peer: ExtensionPeer) -> None:
        result = await peer.result("tools/call", name="add", arguments={"a": 1, "b": 2}, task={"ttl": 1000})
        assert (result["resultType"], result["structuredContent"]) == ("complete", 3)
        for ignored in ({"ttl": 1000}, {"ttl": 1, "pollInterval": 100}):
            made = await peer.result("tools/call", name="multiply", arguments={"a": 1, "b": 2}, task=ignored)
            assert made["resultType"] == "task" and made["ttlMs"] > 1000


class TestCreation:
    @pytest.mark.parametrize("tool", ["hold", "hold_required", "hold_late"])
    async def test_a_task_is_there_as_soon_as_it_is_returned(self, peer: ExtensionPeer, tool: str) -> None:
        key = f"{tool} created"
        made = await peer.call(tool, key=key)
        task = await peer.get(made["taskId"])
        assert made["resultType"] == "task" and task["resultType"] == "complete"
        assert made["status"] == task["status"] == "working"
        assert made["createdAt"] == task["createdAt"] <= task["lastUpdatedAt"]
        assert {"result", "error", "inputRequests", "task", "requestState"}.isdisjoint(made.keys() | task.keys())
        await peer.let(f"release {key}")
        done = await peer.until(made["taskId"], "completed")
        assert done["result"]["structuredContent"] == {"held": key}
        assert RELATED not in done["result"].get("_meta", {})

    async def test_a_call_that_ends_in_time_is_no_task(self, peer: ExtensionPeer) -> None:
        result = await peer.call("quick", text="at once")
        assert (result["resultType"], result["content"][0]["text"]) == ("complete", "at once")

    async def test_a_plain_function_runs_as_a_task(self, peer: ExtensionPeer) -> None:
        done = await peer.until(await peer.create("multiply", a=6, b=7), "completed")
        assert done["result"]["structuredContent"] == 42

    async def test_an_argument_that_is_wrong_makes_no_task_that_succeeds(self, peer: ExtensionPeer) -> None:
        answer = await peer.ask("tools/call", name="multiply", arguments={"a": "six"})
        if "result" in answer and answer["result"]["resultType"] == "task":
            done = await peer.until(answer["result"]["taskId"], "completed")
            answer = {"result": done["result"]}
        assert "error" in answer or answer["result"]["isError"]

    async def test_ids_cannot_be_guessed(self, peer: ExtensionPeer) -> None:
        ids = [await peer.create("multiply", a=1, b=1) for _ in range(5)]
        assert len(set(ids)) == 5
        assert all(len(id) >= 22 and id.isascii() for id in ids)

    async def test_the_time_to_live_is_that_of_the_tool(self, peer: ExtensionPeer) -> None:
        key = "short"
        made = await peer.call("hold_briefly", key=key)
        assert 60_000 <= made["ttlMs"] < 120_000
        assert made["pollIntervalMs"] == 1000
        await peer.let(f"release {key}")

    async def test_rounds_come_before_the_task(self, peer: ExtensionPeer) -> None:
        first = await peer.call("order", key="rounds")
        assert first["resultType"] == "input_required" and "taskId" not in first
        [key] = first["inputRequests"]
        retry = {"inputResponses": {key: STYLE}, "requestState": first["requestState"]}
        made = await peer.result("tools/call", name="order", arguments={"key": "rounds"}, **retry)
        assert made["resultType"] == "task"
        assert {"requestState", "inputRequests"}.isdisjoint(made)
        await peer.let("release rounds")
        task = await peer.until(made["taskId"], "input_required")
        [later] = task["inputRequests"]
        await peer.update(made["taskId"], **{later: SIZE})
        done = await peer.until(made["taskId"], "completed")
        assert done["result"]["content"][0]["text"] == "ordered cubist at 3"


class TestPolling:
    async def test_a_message_tells_what_the_task_does(self, peer: ExtensionPeer) -> None:
        id = await peer.create("hold", key="told")
        task = await peer.until(id, "working", holds=lambda task: "statusMessage" in task)
        assert task["statusMessage"] == "holding told"
        await peer.let("release told")
        await peer.until(id, "completed")

    async def test_a_result_with_an_error_is_completed(self, peer: ExtensionPeer) -> None:
        done = await peer.until(await peer.create("refuse"), "completed")
        assert done["result"]["isError"] is True
        assert done["result"]["content"][0]["text"] == "Not on a Sunday."

    async def test_an_error_of_the_protocol_is_failed_with_that_error(self, peer: ExtensionPeer) -> None:
        done = await peer.until(await peer.create("break_down"), "failed")
        assert done["error"] == {"code": 4711, "message": "No quota left", "data": {"resets": "tomorrow"}}
        assert "No quota left" in done["statusMessage"]
        assert "result" not in done

    @pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
    async def test_an_unknown_id_is_invalid(self, peer: ExtensionPeer, method: str) -> None:
        params: dict[str, Any] = {"inputResponses": {}} if method == "tasks/update" else {}
        for wrong in ("unknown", "x" * 22, "", "x" * 5000):
            assert (await peer.error(method, taskId=wrong, **params))["code"] == -32602
        assert (await peer.error(method, **params))["code"] == -32602

    async def test_no_progress_and_no_logs_are_sent_for_a_task(self, peer: ExtensionPeer) -> None:
        meta = {"progressToken": "count", "io.modelcontextprotocol/logLevel": "debug"}
        made = await peer.result("tools/call", name="count", arguments={"steps": 3}, _meta=meta)
        done = await peer.until(made["taskId"], "completed")
        assert done["result"]["structuredContent"] == 3
        methods = {message.get("method") for message in await peer.wire.quiet()}
        assert methods.isdisjoint({"notifications/progress", "notifications/message"})


class TestQuestions:
    async def test_questions_are_asked_and_answered_one_after_the_other(self, peer: ExtensionPeer) -> None:
        id = await peer.create("paint")
        first = await peer.until(id, "input_required")
        assert first["inputRequests"]["style"]["method"] == "elicitation/create"
        assert first["inputRequests"]["style"]["params"]["message"] == "Which style?"
        assert (await peer.get(id))["inputRequests"] == first["inputRequests"]
        acknowledged = await peer.update(id, style=STYLE)
        assert acknowledged.keys() - {"_meta"} == {"resultType"}
        second = await peer.until(id, "input_required", holds=lambda task: "size" in task["inputRequests"])
        assert second["inputRequests"].keys() == {"size"}, "a key is never used again"
        await peer.update(id, style={"action": "accept", "content": {"style": "too late"}})
        assert (await peer.get(id))["inputRequests"].keys() == {"size"}
        await peer.update(id, size=SIZE)
        done = await peer.until(id, "completed")
        assert done["result"]["content"][0]["text"] == "painted cubist at 3"
        assert (await peer.update(id, size=SIZE)).keys() - {"_meta"} == {"resultType"}

    async def test_some_of_several_questions_are_answered(self, peer: ExtensionPeer) -> None:
        id = await peer.create("survey")
        asked = await peer.until(id, "input_required", holds=lambda task: len(task["inputRequests"]) == 3)
        assert {key: request["method"] for key, request in asked["inputRequests"].items()} == {
            "style": "elicitation/create",
            "title": "sampling/createMessage",
            "roots": "roots/list",
        }
        await peer.update(id, title=MODEL, unknown={"any": ["thing"]})
        task = await peer.get(id)
        assert (task["status"], task["inputRequests"].keys()) == ("input_required", {"style", "roots"})
        await peer.update(id, style=STYLE, roots={"roots": [{"uri": "file:///srv"}]})
        done = await peer.until(id, "completed")
        assert done["result"]["content"][0]["text"] == "cubist, Blue, 1 roots"

    async def test_an_answer_that_comes_while_the_handler_is_busy_is_kept(self, peer: ExtensionPeer) -> None:
        id = await peer.create("assemble", key="busy")
        await peer.until(id, "input_required", holds=lambda task: len(task["inputRequests"]) == 2)
        await peer.update(id, style=STYLE)
        await peer.update(id, size=SIZE)
        await peer.let("release busy")
        done = await peer.until(id, "completed")
        assert done["result"]["content"][0]["text"] == "assembled cubist at 3"

    @pytest.mark.parametrize("action", ["decline", "cancel"])
    async def test_a_user_may_refuse(self, peer: ExtensionPeer, action: str) -> None:
        id = await peer.create("paint")
        await peer.until(id, "input_required")
        await peer.update(id, style={"action": action})
        done = await peer.until(id, "completed")
        assert done["result"]["content"][0]["text"] == f"not painted: {action}"

    async def test_an_answer_that_is_none_is_refused_and_the_question_stays(self, peer: ExtensionPeer) -> None:
        id = await peer.create("paint")
        await peer.until(id, "input_required")
        for wrong in (12345, {"content": {}}, {"action": "shrug"}, {"action": "accept", "content": {"style": 5}}):
            error = await peer.error("tasks/update", taskId=id, inputResponses={"style": wrong})
            assert error["code"] == -32602
        task = await peer.get(id)
        assert (task["status"], list(task["inputRequests"])) == ("input_required", ["style"])
        assert (await peer.error("tasks/update", taskId=id, inputResponses="style"))["code"] == -32602
        assert (await peer.error("tasks/update", taskId=id))["code"] == -32602
        await peer.result("tasks/cancel", taskId=id)

    async def test_only_what_the_client_can_answer_is_asked(self, peer: ExtensionPeer) -> None:
        unable = {CLIENT_CAPABILITIES: {"extensions": {EXTENSION: {}}}}
        made = await peer.result("tools/call", name="paint", arguments={}, _meta=unable)
        done = await peer.until(made["taskId"], "failed")
        assert done["error"]["code"] == -32021
        assert done["error"]["data"]["requiredCapabilities"].keys() == {"elicitation"}


class TestCancellation:
    async def test_a_running_task_is_stopped(self, peer: ExtensionPeer) -> None:
        id = await peer.create("hold", key="stopped")
        await peer.happened("started stopped")
        acknowledged = await peer.result("tasks/cancel", taskId=id)
        assert acknowledged.keys() - {"_meta"} == {"resultType"}
        await peer.happened("stopped stopped")
        task = await peer.until(id, "cancelled")
        assert {"result", "error", "inputRequests"}.isdisjoint(task)
        assert (await peer.result("tasks/cancel", taskId=id)).keys() == acknowledged.keys()
        assert (await peer.get(id))["lastUpdatedAt"] == task["lastUpdatedAt"]

    async def test_a_task_that_has_ended_stays_as_it_is(self, peer: ExtensionPeer) -> None:
        id = await peer.create("multiply", a=1, b=2)
        done = await peer.until(id, "completed")
        assert (await peer.result("tasks/cancel", taskId=id)).keys() - {"_meta"} == {"resultType"}
        assert {**await peer.get(id), "_meta": None} == {**done, "_meta": None}

    async def test_a_task_that_waits_for_an_answer_is_stopped_with_its_questions(self, peer: ExtensionPeer) -> None:
        id = await peer.create("paint")
        await peer.until(id, "input_required")
        await peer.result("tasks/cancel", taskId=id)
        task = await peer.until(id, "cancelled")
        assert "inputRequests" not in task
        await peer.update(id, style=STYLE)
        assert (await peer.get(id))["status"] == "cancelled"

    async def test_a_cancelled_request_does_not_cancel_its_task(self, peer: ExtensionPeer) -> None:
        request = peer.begin("tools/call", name="hold", arguments={"key": "unmoved"})
        id = (await peer.answer(request))["result"]["taskId"]
        await peer.happened("started unmoved")
        cancelled = {"requestId": request, "_meta": peer.wire.meta()}
        peer.wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
        assert (await peer.get(id))["status"] == "working"
        await peer.let("release unmoved")
        await peer.until(id, "completed")


class TestSubscriptions:
    async def test_each_change_is_pushed_as_it_would_be_polled(self, peer: ExtensionPeer) -> None:
        id = await peer.create("hold", key="pushed")
        await peer.happened("started pushed")
        other = await peer.create("multiply", a=1, b=1)
        subscription = peer.begin("subscriptions/listen", notifications={"taskIds": [id, "unknown"]})
        acknowledged = await peer.hear("notifications/subscriptions/acknowledged")
        assert acknowledged["notifications"]["taskIds"] == [id]
        assert acknowledged["_meta"][SUBSCRIPTION_ID] == subscription
        await peer.let("release pushed")
        pushed = await peer.hear("notifications/tasks", lambda task: task["status"] == "completed")
        assert pushed.pop("_meta")[SUBSCRIPTION_ID] == subscription
        polled = await peer.get(id)
        assert pushed == {key: value for key, value in polled.items() if key not in ("_meta", "resultType")}
        heard = peer.oracle.sent_by("server", "notifications/tasks")
        assert other not in {message.params["taskId"] for message in heard}

    async def test_questions_are_pushed(self, peer: ExtensionPeer) -> None:
        id = await peer.create("hold", key="before")
        paint = await peer.create("paint")
        peer.begin("subscriptions/listen", notifications={"taskIds": [id, paint]})
        await peer.hear("notifications/subscriptions/acknowledged")
        await peer.until(paint, "input_required")
        await peer.update(paint, style=STYLE)
        pushed = await peer.hear("notifications/tasks", lambda task: "size" in task.get("inputRequests", {}))
        assert pushed["taskId"] == paint
        await peer.update(paint, size=SIZE)
        await peer.hear("notifications/tasks", lambda task: "result" in task and task["taskId"] == paint)
        await peer.result("tasks/cancel", taskId=id)
        await peer.hear("notifications/tasks", lambda task: task["status"] == "cancelled" and task["taskId"] == id)

    async def test_a_client_that_does_not_declare_the_extension_is_refused(self, peer: ExtensionPeer) -> None:
        id = await peer.create("multiply", a=1, b=1)
        error = await peer.error("subscriptions/listen", notifications={"taskIds": [id]}, _meta=UNDECLARED)
        assert (error["code"], error["data"]) == (-32021, MISSING)


async def test_a_server_without_tasks_declares_nothing_and_has_no_methods() -> None:
    server = Server("plain")
    server.tool(lambda: "done", name="work")
    async with served(server) as caller:
        capabilities = (await caller.open())["capabilities"]
        assert EXTENSION not in capabilities.get("extensions", {})
        assert (await caller.refusal("tasks/get", taskId="x"))["code"] == -32601


class TestHeaders:
    """Routing headers of Streamable HTTP: `Mcp-Name` is the id of the task."""

    @pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
    async def test_a_header_that_differs_from_the_body_is_refused(self, method: str) -> None:
        meta = modern_meta(extensions={EXTENSION: {}})
        params: dict[str, Any] = {"inputResponses": {}} if method == "tasks/update" else {}
        async with serving(tasks_server.build().asgi()) as url, Site(url) as site:
            made = await site.modern("tools/call", name="multiply", arguments={"a": 1, "b": 2}, meta=meta)
            id = (await made.answer())["result"]["taskId"]
            for headers in ({"Mcp-Name": "another"}, {"Mcp-Name": id, "Mcp-Method": "tools/call"}):
                answer = await site.modern(method, headers, taskId=id, **params, meta=meta)
                assert (answer.status, (await answer.error())["code"]) == (400, -32020)
            right = await site.modern(method, {"Mcp-Name": id}, taskId=id, **params, meta=meta)
            assert right.status == 200 and "result" in await right.answer()
