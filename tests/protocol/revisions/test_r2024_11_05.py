"""The first revision."""

from dovetail.protocol.revisions.r2024_11_05 import REVISION
from dovetail.types.capabilities import Implementation, ServerCapabilities
from dovetail.types.messages import InitializeResult, ProgressParams
from dovetail.types.tools import Tool, ToolAnnotations


def test_flags() -> None:
    assert (REVISION.era, REVISION.server_requests, REVISION.disconnect) == ("handshake", "direct", "detach")
    assert (REVISION.structured, REVISION.bad_arguments, REVISION.not_found_code) == (
        "absent",
        "error",
        -32002,
    )
    assert REVISION.content_types == {"text", "image", "resource"}
    assert REVISION.cancels == REVISION.progress_from == {"client", "server"}
    assert REVISION.null_id
    assert not any(
        (
            REVISION.batching,
            REVISION.result_type,
            REVISION.session_header,
            REVISION.version_header,
            REVISION.resumable,
            REVISION.sse_polling,
            REVISION.required_headers,
            REVISION.cacheable,
            REVISION.inputs,
            REVISION.outcomes,
        )
    )


def test_later_fields_are_not_sent() -> None:
    tool = Tool("a", {}, "A", "does", {"type": "object"}, ToolAnnotations(read_only_hint=True), meta={"k": 1})
    assert REVISION.emit(tool) == {"name": "a", "inputSchema": {}, "description": "does"}
    assert REVISION.emit(ProgressParams(1, 2, 3, "half", meta={"k": 1})) == {
        "progressToken": 1,
        "progress": 2,
        "total": 3,
        "_meta": {"k": 1},
    }
    capabilities = ServerCapabilities(completions={}, tasks={}, logging={}, extensions={"a": {}})
    plain = REVISION.emit_result("initialize", InitializeResult("v", capabilities, Implementation("n", "1", "T")))
    assert plain["capabilities"] == {"logging": {}, "extensions": {"a": {}}}
    assert plain["serverInfo"] == {"name": "n", "version": "1"}
