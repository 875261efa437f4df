"""Suggestions in the order in which they fit what was typed."""

from __future__ import annotations

from collections.abc import Iterable

MAX_VALUES = 100
"""The most that one answer may hold (completion, "Completion Results")."""


def ranked(values: Iterable[str], typed: str) -> list[str]:
    """Each value once, the best fit first; equal ones stay in the order given, and nothing is left out.

    Best is what was typed, then what begins with it, what has a word that begins with it, what holds it,
    what holds its letters in order, and the rest; case counts only between equals.
    """
    unique = list(dict.fromkeys(values))
    if not typed:
        return unique
    folded = typed.casefold()
    return sorted(unique, key=lambda value: _distance(value, typed, folded))


def _distance(value: str, typed: str, folded: str) -> tuple[int, bool]:
    low = value.casefold()
    return _rank(low, folded), not value.startswith(typed)


def _rank(value: str, typed: str) -> int:
    if value == typed:
        return 0
    place = value.find(typed)
    if place == 0:
        return 1
    while place > 0:
        if not value[place - 1].isalnum():
            return 2
        place = value.find(typed, place + 1)
    if typed in value:
        return 3
    letters = iter(value)
    return 4 if all(letter in letters for letter in typed) else 5
