"""Ranking of completion suggestions by how well they match the typed text."""

from __future__ import annotations

from collections.abc import Iterable

MAX_VALUES = 100
"""The most values of one completion result (completion, "Completion Results")."""


def rank_values(values: Iterable[str], typed: str) -> list[str]:
    """Sort the values by relevance, without duplicates; equally good ones keep their order, and none is left out.

    The order is: equal to the typed text, beginning with it, having a word that begins with it, containing it,
    containing its letters in order, and the rest. Case decides only between equals.
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
