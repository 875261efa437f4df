"""The difference between two versions of a server's interface, in a few lines."""

from __future__ import annotations

from typing import Any

from dovetail.schema.type_text import signature
from dovetail.testing.interface_diff import changes, report
from dovetail.testing.interface_reader import Interface


def interface_difference(before: Interface, after: Interface) -> str:
    """New and removed tools as signatures, then every other change; `!` marks those that can break callers."""
    old, new = _tools(before), _tools(after)
    lines = [f"+ {_signature(name, new[name])}" for name in new if name not in old]
    lines += [f"! - {_signature(name, old[name])}" for name in old if name not in new]
    kept = {name for name in old if name in new}
    rest = report(
        changes(
            {**before, "tools": {name: old[name] for name in kept}},
            {**after, "tools": {name: new[name] for name in kept}},
        )
    )
    return "\n".join([*lines, *([rest] if rest else [])])


def _tools(interface: Interface) -> dict[str, Any]:
    return interface.get("tools", {})


def _signature(name: str, tool: dict[str, Any]) -> str:
    return signature(name, tool.get("inputSchema", {}), tool.get("outputSchema"))
