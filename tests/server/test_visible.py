"""Lists that depend on who asks, and hints on how long to keep them."""

from typing import Any

import pytest

from dovetail import Client, RemoteError, Server
from dovetail.protocol.errors import LocalError
from dovetail.protocol.revisions import ENVELOPE, REVISIONS
from dovetail.types.messages import SubscriptionFilter
from dovetail.types.resources import ReadResourceResult
from tests.support.served import served

EVERY = pytest.mark.parametrize("name", REVISIONS)
EACH_ENVELOPE = pytest.mark.parametrize("name", ENVELOPE)
LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


def offering(**options: Any) -> Server:
    server = Server("s", **options)
    for word in ("open", "secret"):
        server.tool(lambda: 1, name=word)
        server.prompt(lambda x="": "x", name=word)
        server.resource(f"{word}://one")(lambda: "x")
        server.resource(f"{word}://{{x}}/y")(lambda x: x)
        server.completion(word, "x")(lambda value: ["a"])
    return server


def shown(principal: str | None, kind: str, name: str) -> bool:
    return principal == "ada" or not name.startswith("secret")


class TestVisible:
    @EVERY
    async def test_what_is_not_visible_is_not_there(self, name: str):
        async with Client(offering(visible=shown), revision=name) as client:
            assert [tool.name for tool in await client.tools()] == ["open"]
            assert [prompt.name for prompt in await client.prompts()] == ["open"]
            assert [item.uri for item in await client.resources()] == ["open://one"]
            assert [item.uri_template for item in await client.resource_templates()] == ["open://{x}/y"]
            for use in (
                lambda: client.call("secret"),
                lambda: client.prompt("secret"),
                lambda: client.read("secret://one"),
                lambda: client.read("secret://a/y"),
                lambda: client.complete("secret", "x", ""),
                lambda: client.complete("secret://{x}/y", "x", ""),
                lambda: anext(client.watch("secret://one")),
            ):
                with pytest.raises(RemoteError):
                    await use()
            await client.call("open")
            await client.read("open://one")

    def test_who_may_see_it_does(self):
        server = offering(visible=shown)
        newest = REVISIONS[ENVELOPE[-1]]
        assert b"secret" not in server._core.list_page("tools/list", newest, None, None)
        assert b"secret" in server._core.list_page("tools/list", newest, None, "ada")
        wanted = SubscriptionFilter(resource_subscriptions=["secret://one", "open://one"])
        assert server._core.accepted_filter(wanted).resource_subscriptions == ["open://one"]
        assert server._core.accepted_filter(wanted, "ada").resource_subscriptions == ["secret://one", "open://one"]

    def test_pages_hold_what_is_visible(self):
        server = Server("s", visible=lambda principal, kind, name: name.endswith("0"), page_size=3)
        for number in range(100):
            server.tool(lambda: 1, name=f"t{number}")
        newest, cursor, seen = REVISIONS[ENVELOPE[-1]], None, 0
        while True:
            import json

            page = json.loads(server._core.list_page("tools/list", newest, cursor, None))
            seen += len(page["tools"])
            assert page["cacheScope"] == "private"
            if (cursor := page.get("nextCursor")) is None:
                break
        assert seen == 10

    @EACH_ENVELOPE
    @pytest.mark.parametrize("method", LISTS)
    async def test_a_list_that_depends_on_who_asks_is_private(self, name: str, method: str):
        for server, scope in ((offering(visible=shown), "private"), (offering(), "public")):
            async with served(server, name) as caller:
                assert (await caller.result(method))["cacheScope"] == scope


class TestHints:
    @EACH_ENVELOPE
    @pytest.mark.parametrize("method", [*LISTS, "server/discover"])
    async def test_lists_say_for_how_long(self, name: str, method: str):
        for options, ttl in (({}, 0), ({"list_ttl": 1.5}, 1500), ({"list_ttl": 1.5, "visible": shown}, 1500)):
            async with served(offering(**options), name) as caller:
                assert (await caller.result(method))["ttlMs"] == ttl

    @EACH_ENVELOPE
    async def test_resources_say_for_themselves(self, name: str):
        server = Server("s")
        server.resource("x://none")(lambda: "x")
        server.resource("x://some", ttl=2)(lambda: "x")
        server.resource("x://all", ttl=0.5, public=True)(lambda: "x")
        server.resource("x://own", ttl=2, public=True)(lambda: ReadResourceResult([], ttl_ms=7, cache_scope="private"))
        server.resource("x://half", ttl=2)(lambda: ReadResourceResult([], meta={"k": 1}))
        expected = {
            "x://none": (0, "private"),
            "x://some": (2000, "private"),
            "x://all": (500, "public"),
            "x://own": (7, "private"),
            "x://half": (2000, "private"),
        }
        async with served(server, name) as caller:
            for uri, hints in expected.items():
                result = await caller.result("resources/read", uri=uri)
                assert (result["ttlMs"], result["cacheScope"]) == hints
            assert (await caller.result("resources/read", uri="x://half"))["_meta"]["k"] == 1

    @EVERY
    async def test_only_where_the_revision_knows_them(self, name: str):
        server = Server("s", list_ttl=5)
        server.resource("x://some", ttl=2)(lambda: "x")
        async with served(server, name) as caller:
            for method, params in (("resources/list", {}), ("resources/read", {"uri": "x://some"})):
                assert ("ttlMs" in await caller.result(method, **params)) == (name in ENVELOPE)

    def test_no_negative_time(self):
        with pytest.raises(LocalError, match="not for -1"):
            Server("s").resource("x://y", ttl=-1)(lambda: "x")
