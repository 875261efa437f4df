"""Results that a server lets its clients keep."""

import asyncio
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.client import cache as cache_module
from dovetail.client.cache import ResultCache
from dovetail.protocol.revisions import ENVELOPE, HANDSHAKE
from tests.support.scripted import modern
from tests.support.waiting import settled, until

EACH_HANDSHAKE = pytest.mark.parametrize("name", HANDSHAKE)
EACH_ENVELOPE = pytest.mark.parametrize("name", ENVELOPE)
LIST: dict[str, Any] = {"tools": [], "ttlMs": 1000}


class TestFreshness:
    def test_a_result_is_fresh_for_as_long_as_it_says(self):
        cache = ResultCache()
        assert cache.store("tools/list", {}, LIST, 10.0, 0)
        assert cache.get("tools/list", {}, 10.999) == LIST
        assert cache.get("tools/list", {}, 11.0) is None
        assert len(cache) == 0

    @pytest.mark.parametrize("ttl", [0, -5, None, "1000"])
    def test_what_says_nothing_usable_is_not_kept(self, ttl: Any):
        cache = ResultCache()
        assert not cache.store("tools/list", {}, {"tools": [], "ttlMs": ttl}, 0.0, 0)
        assert not cache.store("tools/list", {}, {"tools": []}, 0.0, 0)
        assert not cache.store("tools/list", {}, [1], 0.0, 0)

    def test_interim_results_and_those_of_answers_are_not_kept(self):
        """2026-07-28 caching, "Cacheable Results" and "Cache Key"."""
        cache = ResultCache()
        assert not cache.store("resources/read", {}, {"resultType": "input_required", "ttlMs": 1000}, 0.0, 0)
        for more in ({"inputResponses": {}}, {"requestState": "s"}):
            assert not cache.store("resources/read", {"uri": "x", **more}, {"contents": [], "ttlMs": 1000}, 0.0, 0)

    def test_only_the_very_same_request_is_answered(self):
        cache = ResultCache()
        cache.store("resources/read", {"uri": "x://a", "_meta": {"k": 1}}, {"contents": [], "ttlMs": 1000}, 0.0, 0)
        assert cache.get("resources/read", {"uri": "x://a", "_meta": {"k": 2}}, 0.5) is not None
        assert cache.get("resources/read", {"uri": "x://b"}, 0.5) is None
        assert cache.get("tools/list", {"uri": "x://a"}, 0.5) is None

    def test_who_changes_what_was_found_changes_nothing(self):
        cache = ResultCache()
        cache.store("tools/list", {}, LIST, 0.0, 0)
        found = cache.get("tools/list", {}, 0.5)
        assert found is not None
        found["tools"].append("mine")
        assert cache.get("tools/list", {}, 0.5) == LIST


class TestBounds:
    def test_so_many_results(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(cache_module, "MAX_ENTRIES", 2)
        cache = ResultCache()
        for uri in ("a", "b"):
            cache.store("resources/read", {"uri": uri}, {"ttlMs": 1000}, 0.0, 0)
        cache.get("resources/read", {"uri": "a"}, 0.0)
        cache.store("resources/read", {"uri": "c"}, {"ttlMs": 1000}, 0.0, 0)
        assert [uri for uri in "abc" if cache.get("resources/read", {"uri": uri}, 0.0)] == ["a", "c"]

    def test_so_many_bytes(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(cache_module, "MAX_BYTES", 100)
        cache = ResultCache()
        big = {"ttlMs": 1000, "text": "x" * 40}
        for uri in ("a", "b", "c"):
            cache.store("resources/read", {"uri": uri}, big, 0.0, 0)
        assert len(cache) == 1
        assert not cache.store("resources/read", {"uri": "d"}, {**big, "text": "x" * 100}, 0.0, 0)


class TestStaleness:
    @pytest.mark.parametrize(
        ("kind", "stale"),
        [
            ("tools", ["tools/list"]),
            ("prompts", ["prompts/list"]),
            ("resources", ["resources/list", "resources/templates/list"]),
        ],
    )
    def test_a_list_that_changed_is_dropped(self, kind: str, stale: list[str]):
        cache = ResultCache()
        every = ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"]
        for method in every:
            cache.store(method, {}, {"ttlMs": 1000}, 0.0, 0)
            cache.store(method, {"cursor": "c"}, {"ttlMs": 1000}, 0.0, 0)
        cache.notified(f"notifications/{kind}/list_changed", {})
        assert [method for method in every if cache.get(method, {}, 0.0) is None] == stale
        assert len(cache) == 2 * (len(every) - len(stale))

    def test_a_resource_that_changed_is_dropped_with_those_above_and_below(self):
        cache = ResultCache()
        for uri in ("x://a", "x://a/b", "x://a/b/c", "x://a/other"):
            cache.store("resources/read", {"uri": uri}, {"ttlMs": 1000}, 0.0, 0)
        cache.notified("notifications/resources/updated", {"uri": "x://a/b"})
        assert cache.get("resources/read", {"uri": "x://a/other"}, 0.0) is not None
        assert len(cache) == 1
        cache.notified("notifications/resources/updated", {"uri": 5})
        assert len(cache) == 1

    def test_what_was_asked_for_before_the_change_is_stale_when_it_comes(self):
        cache = ResultCache()
        age = cache.generation("tools/list")
        cache.notified("notifications/tools/list_changed", {})
        assert not cache.store("tools/list", {}, LIST, 0.0, age)
        assert cache.store("tools/list", {}, LIST, 0.0, cache.generation("tools/list"))


class Counting:
    """A server that counts how often it is asked."""

    def __init__(self, **options: Any) -> None:
        self.asked: list[str] = []
        self.server = Server("s", list_ttl=60, **options)
        self.server.tool(lambda: 1, name="t")
        self.server.resource("x://kept", ttl=60)(lambda: self.read("kept"))
        self.server.resource("x://not")(lambda: self.read("not"))
        self.server.use(self.count)

    def read(self, name: str) -> str:
        return name

    async def count(self, exchange: Any, proceed: Any) -> dict[str, Any]:
        self.asked.append(exchange.target or exchange.method)
        return await proceed(exchange)


class TestClient:
    @EACH_ENVELOPE
    async def test_what_is_fresh_is_not_asked_for_again(self, name: str):
        counting = Counting()
        async with Client(counting.server, revision=name, cache=True) as client:
            for _ in range(3):
                assert [tool.name for tool in await client.tools()] == ["t"]
                await client.read("x://kept")
                await client.read("x://not")
            asked = [method for method in counting.asked if method != "subscriptions/listen"]
            assert asked == ["server/discover", "tools/list", "x://kept", "x://not", "x://not", "x://not"]
            assert client.cache is not None
            client.cache.clear()
            await client.tools()
            assert counting.asked[-1] == "tools/list"

    @EACH_ENVELOPE
    async def test_a_change_is_heard_of_and_drops_it(self, name: str):
        counting = Counting()
        async with Client(counting.server, revision=name, cache=True) as client:
            await client.tools()
            await until(lambda: "subscriptions/listen" in counting.asked)
            counting.server.tool(lambda: 2, name="new")
            await settled(50)
            assert [tool.name for tool in await client.tools()] == ["t", "new"]
            await client.tools()
            assert counting.asked.count("tools/list") == 2
            assert counting.asked.count("subscriptions/listen") == 1

    @EACH_HANDSHAKE
    async def test_a_revision_without_hints_keeps_nothing(self, name: str):
        counting = Counting()
        async with Client(counting.server, revision=name, cache=True) as client:
            for _ in range(2):
                await client.tools()
            assert counting.asked.count("tools/list") == 2

    async def test_without_it_everything_is_asked_for(self):
        counting = Counting()
        async with Client(counting.server) as client:
            for _ in range(2):
                await client.tools()
            assert counting.asked.count("tools/list") == 2
            assert client.cache is None

    async def test_a_request_with_metadata_of_its_own_is_sent(self):
        counting = Counting()
        async with Client(counting.server, cache=True) as client:
            for _ in range(2):
                await client.request("tools/list", meta={"com.example/k": 1})
            assert counting.asked.count("tools/list") == 2

    async def test_a_new_connection_starts_anew(self):
        counting = Counting()
        client = Client(counting.server, cache=True)
        for _ in range(2):
            async with client:
                await client.tools()
        assert counting.asked.count("tools/list") == 2

    async def test_a_server_that_has_no_subscriptions_hurts_nobody(self):
        answer = {"resultType": "complete", "tools": [], "ttlMs": 60000, "cacheScope": "public"}
        before = asyncio.all_tasks()
        async with Client(modern(tools_list=answer), cache=True) as client:
            await client.tools()
            await settled(50)
            await client.tools()
        assert asyncio.all_tasks() == before
