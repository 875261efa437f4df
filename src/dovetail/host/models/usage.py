"""Token usage of an answer, where the endpoint reports it."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from dovetail.types.client_features import CreateMessageResult

USAGE = "dovetail/usage"
"""Key in an answer's `_meta`; it never reaches a server."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens read and written, and their price if the endpoint reports it."""

    input: int = 0
    output: int = 0
    cost: float | None = None
    """In US dollars."""

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(self.input + other.input, self.output + other.output, sum(costs) if costs else None)


def usage_meta(read: object, written: object, cost: object = None) -> dict[str, Any] | None:
    """The `_meta` of an answer, from numbers that may be missing or anything else."""
    if not (isinstance(read, int) or isinstance(written, int)):
        return None
    counts: dict[str, Any] = {"input": _count(read), "output": _count(written)}
    return {USAGE: counts if (price := _price(cost)) is None else {**counts, "cost": price}}


def usage_of(answer: CreateMessageResult) -> Usage | None:
    """The usage of an answer; None if it is unknown."""
    usage = (answer.meta or {}).get(USAGE)
    if not isinstance(usage, dict):
        return None
    counts = cast("dict[str, object]", usage)
    return Usage(_count(counts.get("input")), _count(counts.get("output")), _price(counts.get("cost")))


def _count(number: object) -> int:
    return number if isinstance(number, int) and number > 0 else 0


def _price(number: object) -> float | None:
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    return float(number) if 0 <= number < float("inf") else None
