"""Lists are built once a revision and page, and anew when something changes."""

import json
from typing import Any

import pytest

from dovetail.protocol.errors import INVALID_PARAMS, ProtocolError
from dovetail.protocol.paging import Pager
from dovetail.protocol.revisions import NEWEST, NEWEST_HANDSHAKE
from dovetail.protocol.revisions.revision import Revision
from dovetail.server.listing import Listing
from dovetail.server.registry import Registry
from dovetail.types.prompts import ListPromptsResult, Prompt
from dovetail.types.shape import Value


class Item:
    def __init__(self, name: str) -> None:
        self.definition = Prompt(name)


class Lists:
    """A listing of prompts that counts how often it is built."""

    def __init__(self, count: int, size: int = 3) -> None:
        self.registry: Registry[Any] = Registry("prompt", lambda: self.listing.forget())
        self.listing = Listing("prompts/list", self.registry, ListPromptsResult, Pager(b"secret"))
        self.size = size
        self.built = 0
        for n in range(count):
            self.registry.add(f"p{n}", Item(f"p{n}"))

    def finish(self, revision: Revision, method: str, value: Value) -> dict[str, Any]:
        self.built += 1
        return revision.emit_result(method, value)

    def page(self, cursor: str | None = None, revision: Revision = NEWEST) -> dict[str, Any]:
        return json.loads(self.listing.page(revision, cursor, self.size, self.finish))

    def names(self, revision: Revision = NEWEST) -> list[str]:
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = self.page(cursor, revision)
            found.extend(prompt["name"] for prompt in page["prompts"])
            cursor = page.get("nextCursor")
            if cursor is None:
                return found


def test_the_pages_together_are_the_list():
    assert Lists(8).names() == [f"p{n}" for n in range(8)]
    assert Lists(0).names() == []
    assert "nextCursor" not in Lists(3).page()


def test_each_page_is_built_once_a_revision():
    lists = Lists(8)
    for _ in range(3):
        lists.names()
    assert lists.built == 3
    lists.names(NEWEST_HANDSHAKE)
    lists.names(NEWEST_HANDSHAKE)
    assert lists.built == 6


def test_a_change_builds_them_anew():
    lists = Lists(2)
    lists.names()
    lists.registry.add("late", Item("late"))
    assert lists.names() == ["p0", "p1", "late"]
    lists.registry.remove("p0")
    assert lists.names() == ["p1", "late"]


def test_each_revision_gets_what_it_knows():
    lists = Lists(1)
    assert lists.page(None, NEWEST)["cacheScope"] == "public"
    assert set(lists.page(None, NEWEST_HANDSHAKE)) == {"prompts"}


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "ü"])
def test_a_cursor_that_we_did_not_make_is_invalid_params(cursor: str):
    with pytest.raises(ProtocolError, match="Invalid cursor") as caught:
        Lists(8).page(cursor)
    assert caught.value.code == INVALID_PARAMS


def test_a_cursor_holds_over_a_change():
    lists = Lists(8)
    cursor = lists.page()["nextCursor"]
    lists.registry.remove("p0")
    assert [prompt["name"] for prompt in lists.page(cursor)["prompts"]] == ["p3", "p4", "p5"]


def test_a_cursor_written_in_many_ways_takes_no_more_memory():
    """Base64 has several spellings of the same bytes; a client must not fill the cache with them."""
    lists = Lists(8)
    cursor = lists.page()["nextCursor"]
    for spelling in (cursor, cursor + "=", cursor + "==", cursor[:5] + "\n" + cursor[5:], cursor + "!!"):
        try:
            page = lists.page(spelling)
        except ProtocolError:
            continue
        assert page["prompts"][0]["name"] == "p3"
    assert lists.built == 2


def test_a_change_while_a_page_is_built_is_not_lost():
    lists = Lists(2)
    finish = lists.finish

    def slow(revision: Revision, method: str, value: Value) -> dict[str, Any]:
        result = finish(revision, method, value)
        if lists.built == 1:
            lists.registry.add("meanwhile", Item("meanwhile"))
        return result

    lists.finish = slow
    assert lists.names() == ["p0", "p1"]
    assert lists.names() == ["p0", "p1", "meanwhile"]
