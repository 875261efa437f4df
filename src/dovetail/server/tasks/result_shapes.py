"""Results of tasks that are fetched on another revision than they were created on."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from dovetail.protocol.errors import RemoteError
from dovetail.protocol.revisions import REVISIONS
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.tasks import TaskRecord
from dovetail.types.tools import DATA_MARK, CallToolResult


def in_shape_of(record: TaskRecord, revision: Revision) -> TaskRecord:
    """The record with its result as a revision writes it: revisions differ in what structured content may be."""
    if record.result is None or record.revision == revision.name:
        return record
    try:
        result = REVISIONS[record.revision].load_result("tools/call", record.result)
    except RemoteError:
        return record
    if not isinstance(result, CallToolResult):
        return record
    result = cast("CallToolResult[Any]", result)
    if result.structured_content is msgspec.UNSET:
        return record
    value = result.bare_value()
    meta = {key: entry for key, entry in (result.meta or {}).items() if key != DATA_MARK}
    result = msgspec.structs.replace(
        result, structured_content=value, wrapped=not isinstance(value, dict), meta=meta or None
    )
    return msgspec.structs.replace(record, result=revision.emit_result("tools/call", result))
