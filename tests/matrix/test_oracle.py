"""The oracle itself: it lets right messages pass and finds wrong ones, on every revision."""

import json
from typing import Any

import pytest

from dovetail.protocol.revisions import HANDSHAKE, REVISIONS
from tests.support.closed_schema import spec_folder
from tests.support.oracle import Oracle

NOT_CHECKED = (
    "NOT CHECKED: no message of this run was held against an official schema. "
    "Set DOVETAIL_SPEC to a folder that holds <revision>/schema.json."
)
INFO = {"name": "x", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}

each_revision = pytest.mark.parametrize("revision", REVISIONS)
needs_schemas = pytest.mark.skipif(spec_folder() is None, reason=NOT_CHECKED)


def test_the_official_schemas_are_there() -> None:
    """Loud where they are not: the rest of the matrix then checks behaviour only."""
    if spec_folder() is None:
        print(NOT_CHECKED)
        pytest.skip(NOT_CHECKED)
    assert Oracle().checks_schemas


class Talk:
    """A conversation made up line by line, and the oracle that listens."""

    def __init__(self, revision: str, **options: Any) -> None:
        self.oracle = Oracle(**options)
        self.revision = revision
        self.envelope = REVISIONS[revision].era == "envelope"
        if not self.envelope:
            hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": INFO}
            self.client(id=0, method="initialize", params=hello)
            welcome = {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": INFO}
            self.server(id=0, result=welcome)
            self.client(method="notifications/initialized")
        self.oracle.verdict()

    def client(self, **message: Any) -> None:
        self.oracle("sent", json.dumps({"jsonrpc": "2.0", **message}).encode())

    def server(self, **message: Any) -> None:
        self.oracle("received", json.dumps({"jsonrpc": "2.0", **message}).encode())

    def ask(self, method: str, id: Any = 1, meta: dict[str, Any] | None = None, **params: Any) -> None:
        carried = {**(META if self.envelope else {}), **(meta or {})}
        self.client(id=id, method=method, params={**params, **({"_meta": carried} if carried else {})})

    def result(self, id: Any = 1, **fields: Any) -> None:
        stamp: dict[str, Any] = {"resultType": "complete"} if self.envelope else {}
        self.server(id=id, result={**stamp, **fields})

    def found(self, *words: str) -> None:
        """Something was wrong, and the complaint names it."""
        problems = "\n".join(self.oracle.problems())
        assert problems, "the oracle found nothing"
        assert all(word in problems for word in words), problems


@each_revision
def test_right_messages_pass(revision: str) -> None:
    talk = Talk(revision)
    talk.ask("tools/call", meta={"progressToken": "t"}, name="add", arguments={"a": 1})
    talk.server(method="notifications/progress", params={"progressToken": "t", "progress": 1, "total": 2})
    talk.server(method="notifications/progress", params={"progressToken": "t", "progress": 2, "total": 2})
    talk.result(content=[{"type": "text", "text": "3"}], isError=False)
    talk.ask("tools/call", id=2, name="add")
    talk.client(method="notifications/cancelled", params={"requestId": 2, "reason": "enough"})
    talk.ask("prompts/get", id="three", name="missing")
    talk.server(id="three", error={"code": -32602, "message": "Unknown prompt"})
    talk.oracle.verdict()


@needs_schemas
@each_revision
def test_a_wrong_type_in_params_is_found(revision: str) -> None:
    talk = Talk(revision)
    talk.ask("tools/call", name=5)
    talk.found("client", "name")


@needs_schemas
@each_revision
def test_an_unknown_field_in_params_is_found(revision: str) -> None:
    talk = Talk(revision)
    talk.ask("tools/call", name="add", argument={})
    talk.found("client", "argument")


@needs_schemas
@each_revision
def test_a_missing_field_of_a_result_is_found(revision: str) -> None:
    talk = Talk(revision)
    talk.ask("tools/call", name="add")
    talk.result(isError=False)
    talk.found("server", "content")


@needs_schemas
@each_revision
def test_a_result_is_held_against_the_request_that_it_answers(revision: str) -> None:
    talk = Talk(revision)
    talk.ask("prompts/get", name="p")
    talk.result(content=[])
    talk.found("server", "messages")


@needs_schemas
@each_revision
def test_a_field_deep_in_a_result_is_found(revision: str) -> None:
    talk = Talk(revision)
    talk.ask("tools/call", name="add")
    talk.result(content=[{"type": "text", "text": "3", "mimetype": "text/plain"}])
    talk.found("server")


@needs_schemas
@pytest.mark.parametrize(
    ("revision", "field"),
    [
        ("2024-11-05", {"title": "T"}),
        ("2024-11-05", {"annotations": {"readOnlyHint": True}}),
        ("2024-11-05", {"_meta": {}}),
        ("2025-03-26", {"outputSchema": {"type": "object"}}),
        ("2025-06-18", {"icons": []}),
        ("2025-06-18", {"outputSchema": {"type": "array"}}),
        ("2026-07-28", {"execution": {"taskSupport": "optional"}}),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_a_field_of_another_revision_is_found(revision: str, field: dict[str, Any]) -> None:
    talk = Talk(revision)
    talk.ask("tools/list")
    cache = {"ttlMs": 0, "cacheScope": "private"} if talk.envelope else {}
    talk.result(tools=[{"name": "t", "inputSchema": {"type": "object"}, **field}], **cache)
    talk.found("server", next(iter(field)))


@needs_schemas
@each_revision
def test_a_method_that_the_revision_does_not_have_is_found(revision: str) -> None:
    talk = Talk(revision)
    talk.ask("notes/add", text="hi")
    talk.found("client", "must not send notes/add")
    told = Talk(revision, extension_methods={"notes/add"})
    told.ask("notes/add", text="hi")
    told.oracle.verdict()


@needs_schemas
@each_revision
def test_a_method_of_the_other_side_is_found(revision: str) -> None:
    talk = Talk(revision)
    talk.server(id=1, method="tools/list", params={})
    talk.found("server", "must not send tools/list")


@needs_schemas
@each_revision
def test_only_the_right_form_of_an_error_without_id_passes(revision: str) -> None:
    error = {"code": -32700, "message": "Parse error"}
    null_id = HANDSHAKE.index("2025-11-25") > (HANDSHAKE.index(revision) if revision in HANDSHAKE else 99)
    wrong, right = ({}, {"id": None}) if null_id else ({"id": None}, {})
    talk = Talk(revision)
    if talk.envelope:
        talk.ask("tools/call", name="add")
    talk.server(**right, error=error)
    talk.oracle.verdict()
    talk.server(**wrong, error=error)
    talk.found("without a readable id")


@needs_schemas
def test_what_every_request_of_the_envelope_era_carries_is_missed() -> None:
    talk = Talk("2026-07-28")
    talk.client(id=1, method="tools/list", params={"_meta": META})
    talk.oracle.verdict()
    for key in ("io.modelcontextprotocol/clientCapabilities",):
        talk.client(id=2, method="tools/list", params={"_meta": {k: v for k, v in META.items() if k != key}})
        talk.found(key)


@needs_schemas
@pytest.mark.parametrize(
    "error",
    [
        {"code": -32002, "message": "gone"},
        {"code": -32050, "message": "my own"},
        {"code": -32022, "message": "Unsupported", "data": {"requested": "x"}},
        {"code": -32021, "message": "Missing", "data": {"requiredCapabilities": {"rots": {}}}},
    ],
    ids=lambda error: str(error["code"]),
)
def test_a_wrong_error_of_the_newest_revision_is_found(error: dict[str, Any]) -> None:
    talk = Talk("2026-07-28")
    talk.ask("resources/read", uri="x://y")
    talk.server(id=1, error=error)
    talk.found("server")


@needs_schemas
def test_an_unannounced_result_type_is_found() -> None:
    talk = Talk("2026-07-28")
    talk.ask("tools/call", name="t")
    talk.result(resultType="mystery", content=[])
    talk.found("mystery")


def test_batches_belong_to_one_revision() -> None:
    for revision in HANDSHAKE:
        talk = Talk(revision)
        pings = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in (1, 2)]
        talk.oracle("sent", json.dumps(pings).encode())
        if revision == "2025-03-26":
            talk.oracle.verdict()
        else:
            talk.found("no batches")


def test_the_members_of_a_batch_are_judged_each() -> None:
    talk = Talk("2025-03-26")
    talk.oracle("sent", json.dumps([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]).encode())
    talk.oracle("received", json.dumps([{"jsonrpc": "2.0", "id": 2, "result": {}}]).encode())
    talk.found("nobody asked")


@each_revision
def test_an_answer_to_nobody_a_second_answer_and_a_used_id_are_found(revision: str) -> None:
    talk = Talk(revision)
    talk.result(id=77)
    talk.found("nobody asked")
    talk.ask("tools/call", name="add")
    talk.ask("tools/call", name="add")
    talk.found("used before")
    talk.result(content=[])
    talk.oracle.verdict()
    talk.result(content=[])
    talk.found("answered before")
    talk.result(id="1", content=[])
    talk.found("nobody asked")


@each_revision
def test_progress_that_belongs_to_nothing_or_does_not_grow_is_found(revision: str) -> None:
    def progress(token: Any, value: float) -> None:
        talk.server(method="notifications/progress", params={"progressToken": token, "progress": value})

    talk = Talk(revision)
    progress("t", 1)
    talk.found("no request has the progress token")
    talk.ask("tools/call", meta={"progressToken": "t"}, name="add")
    progress("t", 1)
    talk.oracle.verdict()
    progress("t", 1)
    talk.found("did not grow")
    talk.result(content=[])
    progress("t", 2)
    talk.found("was answered")


@each_revision
def test_a_wrong_cancellation_is_found(revision: str) -> None:
    talk = Talk(revision)
    talk.client(method="notifications/cancelled", params={"requestId": 9})
    talk.found("had not asked for")
    talk.ask("tools/call", name="add")
    talk.server(method="notifications/cancelled", params={"requestId": 1})
    talk.found("had not asked for")
    if not talk.envelope:
        talk.client(method="notifications/cancelled", params={"requestId": 0})
        talk.found("initialize must not be cancelled")


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_a_request_before_the_handshake_is_found(revision: str) -> None:
    oracle = Oracle()
    oracle("sent", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    assert "before the handshake" in "\n".join(oracle.problems())


@needs_schemas
def test_the_newest_revision_has_no_requests_from_servers_and_no_answers_from_clients() -> None:
    talk = Talk("2026-07-28", extension_methods={"notes/ask"})
    talk.ask("tools/call", name="add")
    talk.server(id=5, method="notes/ask", params={})
    talk.found("must not send notes/ask")
    talk.client(id=5, result={"resultType": "complete"})
    talk.found("must not answer")


def test_what_one_side_says_can_be_left_unjudged() -> None:
    talk = Talk("2025-11-25", judge={"server"})
    talk.client(id=1, method="nonsense")
    talk.oracle("sent", b"{{{")
    talk.oracle.verdict()
    talk.oracle("received", b"{{{")
    talk.found("not JSON")


TASK = {
    "taskId": "t",
    "status": "working",
    "createdAt": "2026-11-18T12:00:00Z",
    "lastUpdatedAt": "2026-11-18T12:00:00.250Z",
}


def test_tasks_of_the_extension_pass() -> None:
    talk = Talk("2026-07-28")
    talk.ask("tools/call", name="render")
    talk.server(id=1, result={**TASK, "resultType": "task", "ttlMs": 60_000})
    talk.ask("tasks/get", id=2, taskId="t")
    talk.result(id=2, **{**TASK, "status": "completed"}, ttlMs=None, result={"content": []})
    talk.ask("tasks/update", id=3, taskId="t", inputResponses={})
    talk.result(id=3)
    talk.ask("subscriptions/listen", id=4, notifications={"taskIds": ["t"]})
    meta = {"io.modelcontextprotocol/subscriptionId": 4}
    acknowledged = {"notifications": {"taskIds": ["t"]}, "_meta": meta}
    talk.server(method="notifications/subscriptions/acknowledged", params=acknowledged)
    talk.server(method="notifications/tasks", params={**TASK, "ttlMs": 60_000, "_meta": meta})
    talk.oracle.verdict()


@needs_schemas
@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "completed"},
        {"status": "failed", "result": {"content": []}},
        {"status": "input_required", "inputRequests": {}},
        {"result": {"content": []}},
        {"ttl": 60_000},
        {"ttlMs": 0.5},
        {"createdAt": "yesterday"},
        {"requestState": "x"},
    ],
    ids=str,
)
def test_a_task_of_the_extension_with_wrong_fields_is_found(wrong: dict[str, Any]) -> None:
    talk = Talk("2026-07-28")
    talk.ask("tasks/get", taskId="t")
    talk.result(**{**TASK, "ttlMs": 60_000, **wrong})
    talk.found("server")


def test_tasks_of_core_pass() -> None:
    talk = Talk("2025-11-25")
    talk.ask("tools/call", name="render", task={"ttl": 60_000}, meta={"progressToken": "p"})
    talk.result(task={**TASK, "ttl": 60_000})
    talk.server(method="notifications/progress", params={"progressToken": "p", "progress": 1})
    talk.server(method="notifications/tasks/status", params={**TASK, "ttl": 60_000})
    talk.ask("tasks/result", id=2, taskId="t")
    talk.result(id=2, content=[], _meta={"io.modelcontextprotocol/related-task": {"taskId": "t"}})
    talk.ask("tools/call", id=3, name="add", task={})
    talk.result(id=3, content=[])
    talk.oracle.verdict()


@needs_schemas
def test_a_result_of_a_task_that_is_none_of_its_request_is_found() -> None:
    talk = Talk("2025-11-25")
    talk.ask("tasks/result", taskId="t")
    talk.result(contents=[])
    talk.found("server", "content")
