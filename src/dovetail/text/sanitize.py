"""Removal of terminal escape sequences, control characters and invisible characters from text.

A user does not see them, but a terminal or a model may obey them.
"""

from __future__ import annotations

import re
from typing import Any, cast

MAX_DEPTH = 100

_ESCAPES = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    "|\x1b[\\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"  # titles, links, and other strings
    "|\x1b[ -/]*[0-~]?"
)
_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"}
_INVISIBLE = {
    code: None
    for code in (
        *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, 0x3164, 0xFEFF, 0xFFA0),
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
        *range(0xFFF9, 0xFFFC),
        *range(0xE0000, 0xE0080),
    )
    if code not in (0x200C, 0x200D)  # joiners, which letters of some scripts and emoji need
}
_REMOVED = {**_CONTROLS, **_INVISIBLE}
_BYTES = frozenset({"data", "blob"})


def clean_text(text: str) -> str:
    """The text without escape sequences, control characters, and invisible or bidirectional formatting characters."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return text.translate(_REMOVED)


def clean(value: Any) -> Any:
    """A copy of a JSON value with all its texts cleaned; binary data and field names stay as they are."""
    return _clean(value, 0)


def _clean(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if depth >= MAX_DEPTH and isinstance(value, (dict, list)):
        return "[nested too deeply]"
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        binary = _BYTES if "mimeType" in fields else frozenset[str]()
        return {name: inner if name in binary else _clean(inner, depth + 1) for name, inner in fields.items()}
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in cast("list[Any]", value)]
    return value
