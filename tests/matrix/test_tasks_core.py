"""Tasks of 2025-11-25, which are in core, message by message over each transport; and revisions without tasks."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from dovetail import Server
from dovetail.server.tasks import methods
from tests.matrix import tasks_server
from tests.matrix.conftest import Loop
from tests.matrix.connections import Transport, on, wired
from tests.matrix.task_connections import (
    EXTENSION,
    RELATED,
    SIZE,
    STYLE,
    TRANSPORTS,
    CorePeer,
    core_peer,
    over_each_transport,
    tasks_target,
)
from tests.support.http import serving
from tests.support.raw_http import Site
from tests.support.served import served

REVISION = "2025-11-25"
MODEL = {"role": "assistant", "content": {"type": "text", "text": "Blue"}, "model": "m"}


@pytest.fixture(params=TRANSPORTS, scope="module")
def connection(request: pytest.FixtureRequest, loop: Loop) -> Iterator[CorePeer]:
    """One connection for all tests: their tasks do not meet."""
    stack = contextlib.AsyncExitStack()
    yield loop.runner.run(stack.enter_async_context(core_peer(tasks_target(request.param))))
    loop.runner.run(stack.aclose())


@pytest.fixture
def peer(connection: CorePeer) -> Iterator[CorePeer]:
    """The connection; each test answers for what was said during it."""
    connection.wire.aside.clear()
    yield connection
    connection.oracle.verdict()


class TestNegotiation:
    @over_each_transport
    async def test_the_capability_is_declared_and_no_list_without_authorization(self, transport: Transport) -> None:
        async with wired(tasks_target(transport), REVISION, greet=False) as (wire, _):
            capabilities = (await wire.shake_hands(REVISION))["capabilities"]
            assert capabilities["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
            assert EXTENSION not in capabilities.get("extensions", {})

    async def test_a_tool_says_whether_it_may_be_a_task(self, peer: CorePeer) -> None:
        tools = {tool["name"]: tool for tool in (await peer.result("tools/list"))["tools"]}
        support = {name: tool.get("execution", {}).get("taskSupport", "forbidden") for name, tool in tools.items()}
        assert (support["hold"], support["hold_required"], support["hold_late"]) == ("optional", "required", "optional")
        assert support["add"] == "forbidden"

    async def test_an_optional_task_is_called_plainly_too(self, peer: CorePeer) -> None:
        for tool, arguments in (("multiply", {"a": 6, "b": 7}), ("quick", {"text": "42"})):
            result = await peer.plain(tool, **arguments)
            assert result["content"][0]["text"] == "42" and "task" not in result

    async def test_a_tool_that_must_be_a_task_is_not_found_as_anything_else(self, peer: CorePeer) -> None:
        error = await peer.error("tools/call", name="hold_required", arguments={"key": "plain"})
        assert error["code"] == -32601 and "task" in error["message"]

    async def test_a_tool_that_is_none_is_not_found_as_a_task(self, peer: CorePeer) -> None:
        error = await peer.error("tools/call", name="add", arguments={"a": 1, "b": 2}, task={})
        assert error["code"] == -32601 and "task" in error["message"]

    async def test_methods_of_the_extension_do_not_exist(self, peer: CorePeer) -> None:
        id = await peer.create("multiply", a=1, b=2)
        assert (await peer.error("tasks/update", taskId=id, inputResponses={}))["code"] == -32601
        assert (await peer.error("tasks/list"))["code"] == -32601


class TestCreation:
    @pytest.mark.parametrize("tool", ["hold", "hold_required", "hold_late"])
    async def test_a_task_is_announced_at_once_and_its_result_comes_later(self, peer: CorePeer, tool: str) -> None:
        key = f"{tool} made"
        result = await peer.call(tool, key=key)
        made = result["task"]
        assert {"content", "structuredContent"}.isdisjoint(result)
        assert made["status"] == "working" and isinstance(made["taskId"], str) and len(made["taskId"]) >= 22
        task = await peer.get(made["taskId"])
        assert (task["taskId"], task["status"], task["createdAt"]) == (made["taskId"], "working", made["createdAt"])
        assert task["lastUpdatedAt"] >= task["createdAt"] and isinstance(task["ttl"], int)
        assert RELATED not in task.get("_meta", {})
        await peer.let(f"release {key}")
        done = await peer.result("tasks/result", taskId=made["taskId"])
        assert done["structuredContent"] == {"held": key}
        assert done["_meta"][RELATED] == {"taskId": made["taskId"]}
        assert (await peer.get(made["taskId"]))["status"] == "completed"

    async def test_the_client_may_say_how_long_a_task_is_kept(self, peer: CorePeer) -> None:
        arguments = {"a": 1, "b": 2}
        made = (await peer.result("tools/call", name="multiply", arguments=arguments, task={"ttl": 60_000}))["task"]
        assert 60_000 <= made["ttl"] < 120_000
        assert 60_000 <= (await peer.get(made["taskId"]))["ttl"] < 120_000
        forever = await peer.result("tools/call", name="multiply", arguments=arguments, task={"ttl": 10**12})
        assert forever["task"]["ttl"] <= 31 * 86_400_000

    @pytest.mark.parametrize("wrong", [5, {"ttl": "long"}, []], ids=str)
    async def test_metadata_that_are_wrong_are_refused(self, peer: CorePeer, wrong: Any) -> None:
        error = await peer.error("tools/call", name="multiply", arguments={"a": 1, "b": 2}, task=wrong)
        assert error["code"] == -32602

    async def test_each_task_has_an_id_of_its_own(self, peer: CorePeer) -> None:
        assert len({await peer.create("multiply", a=1, b=1) for _ in range(5)}) == 5


class TestResults:
    async def test_a_result_is_waited_for(self, peer: CorePeer) -> None:
        id = await peer.create("hold", key="waited")
        waiting = peer.begin("tasks/result", taskId=id)
        assert (await peer.until(id, "working"))["status"] == "working"
        await peer.let("release waited")
        answer = await peer.answer(waiting)
        assert answer["result"]["structuredContent"] == {"held": "waited"}
        assert (await peer.result("tasks/result", taskId=id)) == answer["result"], "it can be fetched again"

    async def test_a_result_is_that_of_the_plain_call(self, peer: CorePeer) -> None:
        plain = await peer.plain("multiply", a=6, b=7)
        done = await peer.result("tasks/result", taskId=await peer.create("multiply", a=6, b=7))
        assert done["_meta"].pop(RELATED)
        assert {**done, "_meta": done["_meta"] or None} == {**plain, "_meta": plain.get("_meta")}

    async def test_a_result_with_an_error_is_a_failure_with_that_result(self, peer: CorePeer) -> None:
        id = await peer.create("refuse")
        task = await peer.until(id, "failed")
        assert "Not on a Sunday." in task["statusMessage"]
        result = await peer.result("tasks/result", taskId=id)
        assert (result["isError"], result["content"][0]["text"]) == (True, "Not on a Sunday.")
        assert result["_meta"][RELATED] == {"taskId": id}

    async def test_an_error_of_the_protocol_is_a_failure_with_that_error(self, peer: CorePeer) -> None:
        id = await peer.create("break_down")
        task = await peer.until(id, "failed")
        assert "No quota left" in task["statusMessage"]
        error = await peer.error("tasks/result", taskId=id)
        assert error == {"code": 4711, "message": "No quota left", "data": {"resets": "tomorrow"}}

    async def test_the_id_of_the_params_decides(self, peer: CorePeer) -> None:
        id, other = [await peer.create("multiply", a=number, b=1) for number in (1, 2)]
        meta = {RELATED: {"taskId": other}}
        assert (await peer.result("tasks/get", taskId=id, _meta=meta))["taskId"] == id
        done = await peer.result("tasks/result", taskId=id, _meta=meta)
        assert (done["structuredContent"], done["_meta"][RELATED]) == ({"result": 1}, {"taskId": id})

    @pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
    async def test_an_unknown_id_is_invalid(self, peer: CorePeer, method: str) -> None:
        for wrong in ("unknown", "x" * 22, "", "x" * 5000):
            assert (await peer.error(method, taskId=wrong))["code"] == -32602
        assert (await peer.error(method))["code"] == -32602


class TestQuestions:
    async def test_questions_are_asked_while_a_result_is_waited_for(self, peer: CorePeer) -> None:
        id = await peer.create("paint")
        await peer.until(id, "input_required")
        waiting = peer.begin("tasks/result", taskId=id)
        style = await peer.question()
        assert style["params"]["message"] == "Which style?"
        assert style["params"]["_meta"][RELATED] == {"taskId": id}
        peer.reply(style, STYLE)
        size = await peer.question()
        assert size["params"]["message"] == "Which size?" and size["params"]["_meta"][RELATED] == {"taskId": id}
        assert (await peer.get(id))["status"] == "input_required"
        peer.reply(size, SIZE)
        answer = await peer.answer(waiting)
        assert answer["result"]["content"][0]["text"] == "painted cubist at 3"
        assert (await peer.get(id))["status"] == "completed"

    async def test_questions_of_all_kinds_are_asked_at_once(self, peer: CorePeer) -> None:
        id = await peer.create("survey")
        waiting = peer.begin("tasks/result", taskId=id)
        answers = {
            "elicitation/create": STYLE,
            "sampling/createMessage": MODEL,
            "roots/list": {"roots": [{"uri": "file:///srv"}]},
        }
        for method, result in answers.items():
            question = await peer.question(method)
            assert question["params"]["_meta"][RELATED] == {"taskId": id}
            peer.reply(question, result)
        assert (await peer.answer(waiting))["result"]["content"][0]["text"] == "cubist, Blue, 1 roots"

    @pytest.mark.parametrize("wrong", [{"action": "shrug"}, {"action": "accept", "content": {"style": 5}}], ids=str)
    async def test_an_answer_that_is_none_ends_the_task(self, peer: CorePeer, wrong: dict[str, Any]) -> None:
        """As it ends an ordinary call: the client would give the same answer again."""
        id = await peer.create("paint")
        waiting = peer.begin("tasks/result", taskId=id)
        peer.reply(await peer.question(), wrong)
        assert "error" in await peer.answer(waiting)
        assert (await peer.get(id))["status"] == "failed"

    async def test_a_question_that_the_client_refuses_ends_the_task(self, peer: CorePeer) -> None:
        id = await peer.create("paint")
        waiting = peer.begin("tasks/result", taskId=id)
        question = await peer.question()
        peer.wire.send({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "Nobody is here"}})
        assert "Nobody is here" in (await peer.answer(waiting))["error"]["message"]
        assert "Nobody is here" in (await peer.get(id))["statusMessage"]

    async def test_a_question_that_was_left_is_asked_again(self, peer: CorePeer) -> None:
        """A client that gives up waiting finds the question again when it asks for the result once more."""
        id = await peer.create("paint")
        first = peer.begin("tasks/result", taskId=id)
        await peer.question()
        peer.wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": first}})
        assert (await peer.until(id, "input_required"))["status"] == "input_required"
        again = peer.begin("tasks/result", taskId=id)
        for answer in (STYLE, SIZE):
            peer.reply(await peer.question(), answer)
        assert (await peer.answer(again))["result"]["content"][0]["text"] == "painted cubist at 3"


class TestCancellation:
    async def test_a_task_is_cancelled_before_the_answer_and_stays_so(self, peer: CorePeer) -> None:
        id = await peer.create("hold", key="stop")
        await peer.happened("started stop")
        waiting = peer.begin("tasks/result", taskId=id)
        task = await peer.result("tasks/cancel", taskId=id)
        assert (task["taskId"], task["status"]) == (id, "cancelled")
        assert RELATED not in task.get("_meta", {})
        assert "error" in await peer.answer(waiting)
        await peer.happened("stopped stop")
        assert (await peer.get(id))["status"] == "cancelled"
        error = await peer.error("tasks/cancel", taskId=id)
        assert error["code"] == -32602 and "cancelled" in error["message"]

    @pytest.mark.parametrize("tool", ["refuse", "break_down"])
    async def test_a_task_that_has_ended_cannot_be_cancelled(self, peer: CorePeer, tool: str) -> None:
        id = await peer.create(tool)
        await peer.until(id, "failed")
        assert (await peer.error("tasks/cancel", taskId=id))["code"] == -32602
        assert (await peer.get(id))["status"] == "failed"

    async def test_a_task_that_waits_for_an_answer_is_cancelled_with_its_question(self, peer: CorePeer) -> None:
        id = await peer.create("paint")
        waiting = peer.begin("tasks/result", taskId=id)
        question = await peer.question()
        assert (await peer.result("tasks/cancel", taskId=id))["status"] == "cancelled"
        assert "error" in await peer.answer(waiting)
        cancelled = await peer.hear("notifications/cancelled")
        assert cancelled["requestId"] == question["id"]


@pytest.mark.one_replica("a task notifies a session that is connected to the replica that runs it")
class TestNotifications:
    async def test_changes_of_the_status_are_notified(self, peer: CorePeer) -> None:
        id = await peer.create("hold", key="heard")
        await peer.happened("started heard")
        await peer.let("release heard")
        ended = "notifications/tasks/status"
        told = await peer.hear(ended, lambda task: (task["taskId"], task["status"]) == (id, "completed"))
        assert RELATED not in told.pop("_meta", {})
        assert told == {key: value for key, value in (await peer.get(id)).items() if key != "_meta"}

    async def test_progress_of_a_task_keeps_its_token_and_names_the_task(self, peer: CorePeer) -> None:
        meta = {"progressToken": "count"}
        made = await peer.result("tools/call", name="count", arguments={"steps": 3}, task={}, _meta=meta)
        id = made["task"]["taskId"]
        await peer.until(id, "completed")
        told = [await peer.hear("notifications/progress") for _ in range(3)]
        assert [each["progress"] for each in told] == [1, 2, 3]
        assert {each["progressToken"] for each in told} == {"count"}
        assert all(each["_meta"][RELATED] == {"taskId": id} for each in told)


@over_each_transport
@on("2024-11-05", "2025-03-26", "2025-06-18")
async def test_older_revisions_have_ordinary_calls_only(transport: Transport, revision: str) -> None:
    async with wired(tasks_target(transport), revision, greet=False) as (wire, _):
        capabilities = (await wire.shake_hands(revision))["capabilities"]
        assert "tasks" not in capabilities and EXTENSION not in capabilities.get("extensions", {})
        tools = (await wire.ask("tools/list"))["result"]["tools"]
        assert not [tool["name"] for tool in tools if "execution" in tool]
        await wire.call("let", event="release old")
        for tool in ("hold", "hold_required", "hold_late"):
            answer = await wire.ask("tools/call", name=tool, arguments={"key": "old"}, task={"ttl": 1})
            assert "old" in answer["result"]["content"][0]["text"]
        assert (await wire.ask("tasks/get", taskId="x"))["error"]["code"] == -32601


async def test_a_server_without_tasks_declares_nothing() -> None:
    server = Server("plain")
    server.tool(lambda: "done", name="work")
    async with served(server, REVISION, opened=False) as caller:
        assert "tasks" not in (await caller.open())["capabilities"]
        assert "task" not in await caller.result("tools/call", name="work", arguments={}, task={})


class TestListing:
    """Tasks are listed where there is authorization, each caller's own."""

    async def test_every_caller_lists_its_own_tasks_page_by_page(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(methods, "PAGE", 2)
        server = tasks_server.build(auth={"a": "ann", "b": "bob"}.get)
        async with serving(server.asgi()) as url, Site(url, Authorization="Bearer a") as ann:
            session = await ann.session(REVISION)
            assert session.result["capabilities"]["tasks"]["list"] == {}
            made = {await _made(session) for _ in range(5)}
            found, cursor, pages = list[str](), None, 0
            while pages == 0 or cursor is not None:
                more = {} if cursor is None else {"cursor": cursor}
                page = (await (await session.ask("tasks/list", **more)).answer())["result"]
                assert len(page["tasks"]) <= 2 and RELATED not in page.get("_meta", {})
                found += [task["taskId"] for task in page["tasks"]]
                cursor, pages = page.get("nextCursor"), pages + 1
            assert (len(found), set(found), pages >= 3) == (5, made, True)
            async with Site(url, Authorization="Bearer b") as bob:
                other = await bob.session(REVISION)
                assert (await (await other.ask("tasks/list")).answer())["result"]["tasks"] == []
                own = await _made(other)
                listed = (await (await other.ask("tasks/list")).answer())["result"]["tasks"]
                assert [task["taskId"] for task in listed] == [own]
            for wrong in ("forged", 5):
                error = (await (await session.ask("tasks/list", cursor=wrong)).answer())["error"]
                assert error["code"] == -32602

    async def test_concurrent_tasks_of_one_session_are_all_there(self) -> None:
        server = tasks_server.build(auth={"a": "ann"}.get)
        async with serving(server.asgi()) as url, Site(url, Authorization="Bearer a") as ann:
            session = await ann.session(REVISION)
            made = await asyncio.gather(*(_made(session) for _ in range(10)))
            page = (await (await session.ask("tasks/list")).answer())["result"]
            assert {task["taskId"] for task in page["tasks"]} == set(made)


async def _made(session: Any) -> str:
    answer = await session.ask("tools/call", name="multiply", arguments={"a": 1, "b": 1}, task={})
    return (await answer.answer())["result"]["task"]["taskId"]
