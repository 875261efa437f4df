"""References of tasks, as values."""

import base64
import json
import string

import pytest

from dovetail import LocalError
from dovetail.client.tasks.reference import MAX_REFERENCE, make_reference, read_reference


def text(*fields: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def test_a_reference_comes_back_as_it_was():
    for tool in ("render", "", "überall/🎬"):
        known = read_reference(make_reference("3bCd_-", tool, "2026-07-28"))
        assert (known.id, known.tool, known.revision) == ("3bCd_-", tool, "2026-07-28")


def test_a_reference_is_safe_in_urls_and_shells():
    assert set(make_reference("a?b&c/d", "x y", "2025-11-25")) <= set(string.ascii_letters + string.digits + "-_")


def test_white_space_around_a_reference_does_no_harm():
    assert read_reference(f"  {make_reference('a', 'b', 'c')}\n").id == "a"


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "task-1",
        "é",
        "====",
        "a" * (MAX_REFERENCE + 1),
        text(),
        text(1, "a"),
        text(1, "", "b", "c"),
        text(1, 2, 3, 4),
    ],
)
def test_other_texts_are_refused(wrong: str):
    with pytest.raises(LocalError, match="no reference of a task"):
        read_reference(wrong)


def test_a_reference_of_a_newer_version_says_so():
    with pytest.raises(LocalError, match="format 2, which a newer version"):
        read_reference(text(2, "a", "b", "c"))
