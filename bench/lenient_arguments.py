"""Measurement of lenient arguments: the share of mistakes that they repair, and what a call pays for them.

Run it with `python -m bench.lenient_arguments`. No model is asked: each kind of mistake that is reported of models is
made with every argument of typical tools to which it applies.
"""

from __future__ import annotations

import contextlib
import json
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from dovetail import Context
from dovetail.server.signatures.signature import BadArguments, tool_binding


@dataclass
class Item:
    name: str
    price: float
    count: int = 1


def search(query: str, limit: int = 10, exact: bool = False, tags: list[str] | None = None) -> None: ...
def order(items: list[Item], express: bool, note: str = "") -> None: ...
def move(x: float, y: float, steps: int | None = None, path: list[tuple[float, float]] | None = None) -> None: ...
def update(id: int, fields: dict[str, str], mode: Literal["merge", "replace"] = "merge", version: int = 0) -> None: ...
def schedule(at: str, every: int, days: list[int], options: dict[str, int] | None = None) -> None: ...


TOOLS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (search, {"query": "tea", "limit": 5, "exact": True, "tags": ["hot", "1"]}),
    (order, {"items": [{"name": "tea", "price": 2.5, "count": 2}], "express": False, "note": "no 7"}),
    (move, {"x": 1.5, "y": -2, "steps": 3, "path": [[0, 1], [2, 3.5]]}),
    (update, {"id": 12, "fields": {"a": "1"}, "mode": "replace", "version": 3}),
    (schedule, {"at": "10:30", "every": 15, "days": [1, 5], "options": {"retries": 3}}),
]


def _inside(change: Callable[[Any], Any], value: Any) -> Any:
    """The value with a change made to the first number inside it."""
    if isinstance(value, dict):
        for key, member in value.items():
            if (made := _inside(change, member)) is not None:
                return {**value, key: made}
    if isinstance(value, list):
        for index, member in enumerate(value):
            if (made := _inside(change, member)) is not None:
                return [*value[:index], made, *value[index + 1 :]]
    return change(value) if type(value) in (int, float) else None


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "a number as a string": lambda v: json.dumps(v) if type(v) in (int, float) else None,
    "a boolean as a string": lambda v: json.dumps(v) if isinstance(v, bool) else None,
    "a boolean as Python writes it": lambda v: str(v) if isinstance(v, bool) else None,
    "a list or object as JSON in a string": lambda v: json.dumps(v) if isinstance(v, (list, dict)) else None,
    "a number as a string inside a list or object": lambda v: (
        _inside(json.dumps, v) if isinstance(v, (list, dict)) else None
    ),
    "a list or object as Python writes it": lambda v: str(v) if isinstance(v, (list, dict)) else None,
    "one element instead of a list": lambda v: v[0] if isinstance(v, list) and v else None,
    "items joined by commas": lambda v: ", ".join(map(str, v)) if isinstance(v, list) else None,
    "0 or 1 for a boolean": lambda v: int(v) if isinstance(v, bool) else None,
    "yes or no for a boolean": lambda v: ("no", "yes")[v] if isinstance(v, bool) else None,
    "a number with a unit": lambda v: f"{v} pieces" if type(v) in (int, float) else None,
    "a number for a string": lambda v: 5 if isinstance(v, str) else None,
}


def _bound(function: Callable[..., Any], arguments: dict[str, Any], lenient: bool) -> dict[str, Any] | None:
    try:
        return tool_binding(function, context_type=Context, lenient_arguments=lenient).bind(arguments)
    except BadArguments:
        return None


def count_repairs() -> dict[str, tuple[int, int, int]]:
    """For each kind of mistake: how many strict validation refuses, how many are repaired, and how many wrongly."""
    counts: dict[str, tuple[int, int, int]] = {}
    for kind, make in MISTAKES.items():
        refused = repaired = wrong = 0
        for function, arguments in TOOLS:
            meant = _bound(function, arguments, False)
            for name, value in arguments.items():
                sent = make(value)
                if sent is None or _bound(function, {**arguments, name: sent}, False) is not None:
                    continue
                refused += 1
                got = _bound(function, {**arguments, name: sent}, True)
                repaired += got is not None
                wrong += got is not None and got != meant
        counts[kind] = (refused, repaired, wrong)
    refused = repaired = wrong = 0
    for function, arguments in TOOLS:
        optional = [p for p in arguments if p not in _required(function)]
        for name in optional:
            sent = {**arguments, name: None}
            if _bound(function, sent, False) is None:
                left_out = {key: value for key, value in arguments.items() if key != name}
                got = _bound(function, sent, True)
                refused, repaired = refused + 1, repaired + (got is not None)
                wrong += got is not None and got != _bound(function, left_out, False)
    counts["null for an optional argument"] = (refused, repaired, wrong)
    return counts


def _required(function: Callable[..., Any]) -> list[str]:
    return tool_binding(function, context_type=Context).input_schema.get("required", [])


def call_costs() -> dict[str, float]:
    """Microseconds to bind the arguments of `search`: strict, lenient, and lenient with something to repair."""
    arguments = TOOLS[0][1]
    wrong = {**arguments, "limit": "5"}
    strict = tool_binding(search, context_type=Context)
    lenient = tool_binding(search, context_type=Context, lenient_arguments=True)

    def refuse() -> None:
        with contextlib.suppress(BadArguments):
            strict.bind(wrong)

    timed = {
        "strict, valid": lambda: strict.bind(arguments),
        "lenient, valid": lambda: lenient.bind(arguments),
        "strict, refused": refuse,
        "lenient, repaired": lambda: lenient.bind(wrong),
    }
    return {name: min(timeit.repeat(run, number=2000, repeat=7)) / 2000 * 1e6 for name, run in timed.items()}


def main() -> None:
    """Print both tables."""
    print(f"{'mistake':48} refused  repaired  wrongly")
    counts = count_repairs()
    for kind, (refused, repaired, wrong) in counts.items():
        print(f"{kind:48} {refused:7} {repaired:9} {wrong:8}")
    sums = [sum(row[column] for row in counts.values()) for column in range(3)]
    print(f"{'all':48} {sums[0]:7} {sums[1]:9} {sums[2]:8}")
    for name, cost in call_costs().items():
        print(f"{name:48} {cost:7.1f} µs")


if __name__ == "__main__":
    main()
