"""Names in order agree with a sorted list, whatever comes and goes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.storage.sorted_names import BLOCK, SortedNames, prefix_end

texts = st.text(alphabet="ab%_\ud7ff\ue000\U0010ffff", max_size=4)


@given(st.sets(texts), texts, st.integers(0, 20))
def test_a_prefix_finds_what_begins_with_it(names: set[str], prefix: str, limit: int) -> None:
    ordered = SortedNames()
    for name in names:
        ordered.add(name)
    inside = sorted(name for name in names if name.startswith(prefix))
    assert ordered.count(prefix) == len(inside)
    assert ordered.with_prefix(prefix) == inside
    assert ordered.with_prefix(prefix, limit) == inside[:limit]


def test_many_blocks_stay_in_order() -> None:
    dice = random.Random(1)
    ordered = SortedNames()
    names: set[str] = set()
    for step in range(12 * BLOCK):
        # First more come than go, then more go than come.
        if not names or dice.random() < (0.8 if step < 7 * BLOCK else 0.1):
            name = f"{dice.randrange(100)}:{step}"
            ordered.add(name)
            names.add(name)
        else:
            name = dice.choice(sorted(names)[:50])
            ordered.remove(name)
            names.remove(name)
        if step % 100 == 0:
            for prefix in ("", "1", "42:", "99:"):
                assert ordered.with_prefix(prefix) == sorted(n for n in names if n.startswith(prefix))
                assert ordered.count(prefix) == len(ordered.with_prefix(prefix))
    for name in list(names):
        ordered.remove(name)
    assert ordered.count("") == 0
    assert ordered.with_prefix("") == []


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("", None),
        ("a", "b"),
        ("a:", "a;"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff\U0010ffff", None),
        ("\ud7ff", "\ue000"),
    ],
)
def test_the_end_of_a_prefix_is_after_all_its_names(prefix: str, end: str | None) -> None:
    assert prefix_end(prefix) == end
