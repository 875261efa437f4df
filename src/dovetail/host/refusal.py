"""A call that was not made, as a result."""

from __future__ import annotations

from dovetail.types.tools import CallToolResult


class RefusedResult(CallToolResult):
    """What a model gets instead of a result when policy or person say no; a type of its own, which no server sends."""
