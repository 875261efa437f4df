"""What 2025-11-25 changed."""

from dovetail.protocol.revisions.r2025_06_18 import REVISION as PREVIOUS
from dovetail.protocol.revisions.r2025_11_25 import REVISION
from dovetail.types.client_features import ElicitParams
from dovetail.types.tasks import TaskMetadata, TaskParams, TaskPayload, TaskStatusParams
from dovetail.types.tools import CallToolParams, Tool, ToolExecution


def test_flags() -> None:
    assert (REVISION.null_id, REVISION.bad_arguments, REVISION.sse_polling) == (False, "result", True)
    assert (REVISION.structured, REVISION.not_found_code) == ("object", -32002)
    assert REVISION.session_header and REVISION.resumable and REVISION.version_header
    assert REVISION.content_types - PREVIOUS.content_types == {"tool_use", "tool_result"}


def test_tasks_go_both_ways() -> None:
    for method in ("tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "notifications/tasks/status"):
        assert REVISION.methods[method].sender == "both"
        assert method not in PREVIOUS.methods
    assert REVISION.accept("server", "tasks/get", {"taskId": "1"}) == TaskParams("1")
    assert {name for name, method in REVISION.methods.items() if method.as_task} == {
        "tools/call",
        "sampling/createMessage",
        "elicitation/create",
    }
    params = CallToolParams("a", task=TaskMetadata(5))
    assert REVISION.emit(params) == {"name": "a", "task": {"ttl": 5}}
    assert PREVIOUS.emit(params) == {"name": "a"}


def test_a_payload_passes_through() -> None:
    plain = {
        "content": [],
        "isError": True,
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "1"}},
    }
    loaded = REVISION.load_result("tasks/result", plain)
    assert isinstance(loaded, TaskPayload)
    assert REVISION.emit_result("tasks/result", loaded) == plain


def test_a_status_without_end() -> None:
    status = TaskStatusParams("1", "working", "a", "b", None)
    assert REVISION.emit(status)["ttl"] is None


def test_pages_and_executions_are_sent() -> None:
    page = ElicitParams("?", mode="url", url="https://a", elicitation_id="1")
    assert REVISION.emit(page) == {"message": "?", "mode": "url", "url": "https://a", "elicitationId": "1"}
    assert REVISION.emit(Tool("a", {}, execution=ToolExecution("optional")))["execution"] == {"taskSupport": "optional"}
