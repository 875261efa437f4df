"""What 2025-03-26 changed."""

from dovetail.protocol.revisions.r2024_11_05 import REVISION as PREVIOUS
from dovetail.protocol.revisions.r2025_03_26 import REVISION
from dovetail.types.messages import ProgressParams
from dovetail.types.tools import Tool, ToolAnnotations


def test_flags() -> None:
    assert REVISION.batching and not PREVIOUS.batching
    assert REVISION.session_header and REVISION.resumable
    assert not REVISION.version_header
    assert REVISION.structured == "absent"
    assert REVISION.content_types - PREVIOUS.content_types == {"audio"}
    assert dict(REVISION.methods) == dict(PREVIOUS.methods)


def test_the_additions_of_this_revision_are_sent() -> None:
    tool = Tool("a", {}, "A", annotations=ToolAnnotations(title="T", open_world_hint=False))
    assert REVISION.emit(tool) == {
        "name": "a",
        "inputSchema": {},
        "annotations": {"title": "T", "openWorldHint": False},
    }
    assert REVISION.emit(ProgressParams(1, 2, message="half"))["message"] == "half"
