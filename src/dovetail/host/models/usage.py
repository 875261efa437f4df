"""Token usage of an answer, where the endpoint reports it."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from dovetail.types.client_features import CreateMessageResult

USAGE = "dovetail/usage"
"""Key in an answer's `_meta`; it never reaches a server."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens read and written."""

    input: int = 0
    output: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input + other.input, self.output + other.output)


def usage_meta(read: object, written: object) -> dict[str, Any] | None:
    """The `_meta` of an answer, from two numbers that may be missing or anything else."""
    if not (isinstance(read, int) or isinstance(written, int)):
        return None
    return {USAGE: {"input": _count(read), "output": _count(written)}}


def usage_of(answer: CreateMessageResult) -> Usage | None:
    """The usage of an answer; None if it is unknown."""
    usage = (answer.meta or {}).get(USAGE)
    if not isinstance(usage, dict):
        return None
    counts = cast("dict[str, object]", usage)
    return Usage(_count(counts.get("input")), _count(counts.get("output")))


def _count(number: object) -> int:
    return number if isinstance(number, int) and number > 0 else 0
