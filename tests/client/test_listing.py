"""Lists of a server: bounds over all pages, items that cannot be read, and lists that are not offered."""

from typing import Any

import pytest

from dovetail import Client, InvalidAnswer, LocalError
from dovetail.client.listing import MAX_MISSING, MAX_SENTENCE, MAX_WARNINGS, MissingServers, load_page
from dovetail.protocol.revisions import REVISIONS
from tests.support.scripted import Error, Scripted, legacy, modern, welcome

GOOD: dict[str, dict[str, Any]] = {
    "tools": {"name": "good", "inputSchema": {"type": "object"}},
    "prompts": {"name": "good"},
    "resources": {"name": "good", "uri": "a://good"},
    "resourceTemplates": {"name": "good", "uriTemplate": "a://{good}"},
}
BAD: dict[str, dict[str, Any]] = {
    "tools": {"name": "bad", "inputSchema": "none"},
    "prompts": {"name": "bad", "arguments": {"not": "a list"}},
    "resources": {"name": 3, "uri": "a://bad"},
    "resourceTemplates": {"name": ["bad"], "uriTemplate": "a://{bad}"},
}
LISTS = {
    "tools": ("tools/list", "tools"),
    "prompts": ("prompts/list", "prompts"),
    "resources": ("resources/list", "resources"),
    "resourceTemplates": ("resources/templates/list", "resource_templates"),
}
EVERYTHING = {"tools": {}, "prompts": {}, "resources": {}}


def listing(field: str, *items: Any) -> Scripted:
    server = Scripted(initialize=welcome(capabilities=EVERYTHING), ping={})
    server.answers[LISTS[field][0]] = {field: list(items)}
    return server


class TestMalformedItems:
    @pytest.mark.parametrize("field", LISTS)
    async def test_one_malformed_item_is_left_out_with_a_warning_that_names_it(
        self, field: str, caplog: pytest.LogCaptureFixture
    ):
        async with Client(listing(field, GOOD[field], BAD[field], GOOD[field])) as client:
            items = await getattr(client, LISTS[field][1])()
        assert [item.name for item in items] == ["good", "good"]
        (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert "bad" in warning and "is left out: Expected `" in warning and "at `$." in warning

    @pytest.mark.parametrize("field", LISTS)
    async def test_strict_raises_for_a_client_or_a_list(self, field: str):
        server = listing(field, GOOD[field], BAD[field])
        async with Client(server, strict=True) as client:
            with pytest.raises(InvalidAnswer, match=rf"Invalid result of .*{field}\[1\]"):
                await getattr(client, LISTS[field][1])()
            assert len(await getattr(client, LISTS[field][1])(strict=False)) == 1
        async with Client(server) as client:
            with pytest.raises(InvalidAnswer):
                await getattr(client, LISTS[field][1])(strict=True)

    async def test_an_item_without_a_name_is_told_by_its_number(self, caplog: pytest.LogCaptureFixture):
        async with Client(listing("tools", GOOD["tools"], 7)) as client:
            assert len(await client.tools()) == 1
        assert "The tool number 2 is left out" in caplog.text

    @pytest.mark.parametrize("page", [{"tools": "none"}, {"tools": {}}, {"tools": [], "nextCursor": 5}, "none"])
    async def test_a_page_that_is_no_list_is_an_invalid_answer(self, page: Any):
        server = legacy(tools_list=page)
        async with Client(server) as client:
            with pytest.raises(InvalidAnswer):
                await client.tools()

    def test_thousands_of_malformed_items_are_a_few_warnings(self):
        told: list[str] = []
        load_page(REVISIONS["2025-11-25"], "tools/list", {"tools": [BAD["tools"]] * 1000}, told.append)
        assert len(told) == MAX_WARNINGS + 1
        assert told[-1] == "990 more items of tools/list are left out: they are invalid too"

    def test_the_items_of_a_valid_page_are_not_loaded_one_by_one(self, monkeypatch: pytest.MonkeyPatch):
        revision = REVISIONS["2025-11-25"]
        calls: list[Any] = []
        real = type(revision).load_result
        monkeypatch.setattr(type(revision), "load_result", lambda *args: calls.append(args) or real(*args))
        load_page(revision, "tools/list", {"tools": [GOOD["tools"]] * 100}, calls.append)
        assert len(calls) == 1


def missing(**reasons: str) -> dict[str, Any]:
    """The `_meta` of a list of a gateway."""
    return {"dovetail/servers": {key: {"status": "unavailable", "reason": why} for key, why in reasons.items()}}


class TestMissingServers:
    async def test_a_server_is_reported_once_for_each_reason(self, caplog: pytest.LogCaptureFixture):
        meta = missing(web="it is down", shop="it is full")
        server = Scripted(initialize=welcome(capabilities=EVERYTHING), ping={})
        for field, (method, _) in LISTS.items():
            server.answers[method] = lambda _, field=field: {field: [], "_meta": meta}
        async with Client(server) as client:
            for _, name in LISTS.values():
                await getattr(client, name)()
            assert [record.getMessage() for record in caplog.records] == [
                "The server 'web' behind the gateway is unavailable: it is down",
                "The server 'shop' behind the gateway is unavailable: it is full",
            ]
            caplog.clear()
            meta = missing(web="it is slow", shop="it is full")
            await client.prompts()
            await client.tools()
        assert caplog.messages == ["The server 'web' behind the gateway is unavailable: it is slow"]

    def test_a_server_that_fails_again_is_reported_again(self):
        servers = MissingServers()
        assert len(servers.unreported(missing(web="down", shop="down"))) == 2
        assert servers.unreported(missing(shop="down")) == []
        assert len(servers.unreported(missing(web="down", shop="down"))) == 1
        assert servers.unreported(None) == []
        assert len(servers.unreported(missing(web="down", shop="down"))) == 2

    def test_what_is_remembered_is_bounded(self):
        servers = MissingServers()
        told = servers.unreported(missing(**{f"{n:05}" * 1000: "x" * 5000 for n in range(MAX_MISSING + 5)}))
        assert len(told) == MAX_MISSING + 5 and max(map(len, told)) == MAX_SENTENCE
        assert len(vars(servers)["_reported"]) == MAX_MISSING


class TestNotOffered:
    @pytest.mark.parametrize("make", [legacy, modern])
    async def test_a_list_that_is_not_declared_is_empty_and_not_requested(self, make: Any):
        server: Scripted = make()
        async with Client(server) as client:
            assert await client.prompts() == []
            assert await client.resources() == []
            assert await client.resource_templates() == []
        assert not {"prompts/list", "resources/list", "resources/templates/list"} & set(server.methods)

    async def test_a_declared_list_whose_method_is_missing_is_empty(self):
        server = Scripted(initialize=welcome(capabilities=EVERYTHING), ping={})
        async with Client(server) as client:
            assert await client.resource_templates() == []
            assert await client.tools() == []

    async def test_another_error_is_no_empty_list(self):
        server = legacy(tools_list=Error(-32603, "broken"))
        async with Client(server) as client:
            with pytest.raises(Exception, match="broken"):
                await client.tools()


@pytest.mark.attack("M8")
class TestBounds:
    @pytest.mark.parametrize(
        ("options", "told"),
        [({"max_items": 25}, "more than max_items=25 items"), ({"max_list_bytes": 5000}, "max_list_bytes=5000 bytes")],
    )
    async def test_a_list_is_bounded_over_all_its_pages(self, options: dict[str, Any], told: str):
        def page(message: dict[str, Any]) -> dict[str, Any]:
            tools = [{**GOOD["tools"], "description": "x" * 100} for _ in range(10)]
            return {"tools": tools, "nextCursor": str(message["id"])}

        server = legacy(tools_list=page)
        async with Client(server, **options) as client:
            with pytest.raises(InvalidAnswer, match=told):
                await client.tools()
        assert server.methods.count("tools/list") <= 4

    async def test_a_list_without_end_is_given_up_at_the_default_bound(self):
        text = "x" * 1_000_000

        def page(message: dict[str, Any]) -> dict[str, Any]:
            return {"tools": [{**GOOD["tools"], "description": text}] * 4, "nextCursor": str(message["id"])}

        server = legacy(tools_list=page)
        async with Client(server) as client:
            with pytest.raises(InvalidAnswer, match="max_list_bytes=32000000"):
                await client.tools()
        assert server.methods.count("tools/list") == 8

    async def test_a_list_within_the_bounds_is_taken(self):
        async with Client(listing("tools", *[GOOD["tools"]] * 25), max_items=25) as client:
            assert len(await client.tools()) == 25

    def test_a_bound_is_at_least_one(self):
        with pytest.raises(LocalError, match="max_items"):
            Client("server", max_items=0)
