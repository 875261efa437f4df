"""Lists are built once a revision and page, and anew when something changes."""

import json
from typing import Any

import pytest

from dovetail.protocol.errors import INVALID_PARAMS, ProtocolError
from dovetail.protocol.paging import Pager
from dovetail.protocol.revisions import NEWEST, NEWEST_HANDSHAKE
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.seal import KeyRing
from dovetail.server.features.list_pages import MAX_PARTS, ListPages
from dovetail.server.registry import Registry
from dovetail.types.prompts import ListPromptsResult, Prompt
from dovetail.types.serialization import Value

RING = KeyRing([b"a key for tests of pages"])


class Item:
    def __init__(self, name: str, *scopes: str) -> None:
        self.definition = Prompt(name)
        self.scopes = scopes


class Lists:
    """A listing of prompts that counts how often it is built."""

    def __init__(self, count: int, size: int = 3) -> None:
        self.registry: Registry[Any] = Registry("prompt", lambda: self.listing.clear())
        self.listing = ListPages("prompts/list", self.registry, ListPromptsResult, Pager(RING))
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


class TestScopes:
    """Parts of a list that depend on what a token allows."""

    def lists(self) -> Lists:
        lists = Lists(1)
        for name in "ab":
            lists.registry.add(name, Item(name, name))
        return lists

    def page(self, lists: Lists, *scopes: str) -> dict[str, Any]:
        found = lists.listing.page_within(frozenset(scopes), NEWEST, None, lists.size, lists.finish)
        return json.loads(found)

    def names(self, lists: Lists, *scopes: str) -> list[str]:
        return [prompt["name"] for prompt in self.page(lists, *scopes)["prompts"]]

    def test_each_is_built_once_for_all_that_may_see_the_same(self):
        lists = self.lists()
        for _ in range(2):
            assert self.names(lists) == self.names(lists, "other") == ["p0"]
            assert self.names(lists, "a") == self.names(lists, "a", "other") == ["p0", "a"]
            assert self.names(lists, "a", "b") == ["p0", "a", "b"]
        assert lists.built == 3

    def test_none_is_for_everybody(self):
        lists = self.lists()
        assert self.page(lists)["cacheScope"] == self.page(lists, "a", "b")["cacheScope"] == "private"
        assert lists.page()["cacheScope"] == "public" and len(lists.names()) == 3
        assert self.page(Lists(2), "a")["cacheScope"] == "public", "nothing there asks for a scope"

    def test_a_change_is_seen(self):
        lists = self.lists()
        assert self.names(lists, "a") == ["p0", "a"]
        lists.registry.remove("a")
        lists.registry.add("c", Item("c", "a"))
        assert self.names(lists, "a") == ["p0", "c"]

    def test_no_more_are_kept_than_a_bound(self):
        lists = Lists(0, size=1)
        for number in range(MAX_PARTS + 1):
            lists.registry.add(str(number), Item(str(number), str(number)))
        for _ in range(2):
            for number in range(MAX_PARTS + 1):
                assert self.names(lists, str(number)) == [str(number)]
        assert lists.built == MAX_PARTS + 2
