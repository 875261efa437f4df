"""The catalogue of a gateway: the names that clients see, and the way back from each to its server."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from dovetail.gateway.catalogue import Catalogue, ServerOffers, may_be_of, named_server, own_uri, prefixed_uri
from dovetail.gateway.servers.connection import Offers
from dovetail.protocol.names import tool_name
from dovetail.types.prompts import Prompt
from dovetail.types.resources import Resource, ResourceTemplate
from dovetail.types.tools import Tool


def tool(name: str, schema: dict[str, Any] | None = None, meta: dict[str, Any] | None = None) -> Tool:
    return Tool(name=name, input_schema=schema or {"type": "object"}, meta=meta)


def offers(
    *,
    tools: tuple[str | Tool, ...] = (),
    prompts: tuple[str, ...] = (),
    uris: tuple[str, ...] = (),
    templates: tuple[str, ...] = (),
) -> Offers:
    return Offers(
        tools=tuple(tool(one) if isinstance(one, str) else one for one in tools),
        prompts=tuple(Prompt(name=one) for one in prompts),
        resources=tuple(Resource(uri=one, name=one) for one in uris),
        templates=tuple(ResourceTemplate(uri_template=one, name=one) for one in templates),
    )


def catalogue(*, prefixed: bool = True, **parts: Offers) -> Catalogue:
    return Catalogue([ServerOffers(key, part) for key, part in parts.items()], prefixed=prefixed)


def test_tools_and_prompts_have_the_key_of_their_server_before_their_name() -> None:
    joined = catalogue(git=offers(tools=("log",), prompts=("review",)), web=offers(tools=("log",)))
    assert [name for name, _ in joined.listed_tools()] == ["git__log", "web__log"]
    assert [definition.name for _, definition in joined.listed_tools()] == ["git__log", "web__log"]
    assert [name for name, _ in joined.listed_prompts()] == ["git__review"]
    assert (joined.tools["web__log"].server, joined.tools["web__log"].definition.name) == ("web", "log")


def test_the_view_of_one_server_keeps_names_and_uris() -> None:
    alone = catalogue(prefixed=False, git=offers(tools=("log",), prompts=("review",), uris=("a://x",)))
    assert [name for name, _ in alone.listed_tools()] == ["log"]
    assert [name for name, _ in alone.listed_prompts()] == ["review"]
    assert [uri for uri, _ in alone.listed_resources()] == ["a://x"]
    assert alone.owner_of("anything://at-all") == ("git", "anything://at-all")


def test_names_made_to_collide_lead_to_different_tools() -> None:
    keys = ("a", "a_", "a__b", "b", "_b", "a.b")
    tools = ("c", "_c", "b__c", "__c", "b.c", "c" * 80)
    joined = Catalogue([ServerOffers(key, offers(tools=tools)) for key in keys])
    found = {(owned.server, owned.definition.name) for owned in joined.tools.values()}
    assert found == set(itertools.product(keys, tools))
    assert all(len(name) <= 64 for name in joined.tools)


def test_of_two_tools_of_one_server_with_the_same_name_the_first_counts() -> None:
    first, second = (
        tool("log", {"type": "object", "title": "first"}),
        tool("log", {"type": "object", "title": "second"}),
    )
    joined = catalogue(git=offers(tools=(first, second)))
    assert joined.tools["git__log"].definition is first
    assert len(joined.listed_tools()) == 1


def test_a_uri_that_one_server_has_stays_as_it_is() -> None:
    joined = catalogue(git=offers(uris=("a://x",)), web=offers(uris=("b://x",)))
    assert [uri for uri, _ in joined.listed_resources()] == ["a://x", "b://x"]
    assert joined.owner_of("b://x") == ("web", "b://x")


def test_a_uri_that_several_servers_have_names_its_server() -> None:
    joined = catalogue(git=offers(uris=("a://x",)), web=offers(uris=("a://x",)))
    assert [(uri, one.uri) for uri, one in joined.listed_resources()] == [
        ("gateway:git:a://x", "gateway:git:a://x"),
        ("gateway:web:a://x", "gateway:web:a://x"),
    ]
    assert joined.owner_of("gateway:web:a://x") == ("web", "a://x")
    assert joined.owner_of("a://x") is None


@pytest.mark.parametrize("key", ["a:b", "a", "a%3Ab", "a b/c", "ä"])
def test_a_prefix_leads_to_the_server_of_its_key_whatever_the_key_is(key: str) -> None:
    others = {"a:b", "a", "a%3Ab", "b"} - {key}
    parts = [ServerOffers(one, offers(uris=("a://x", "b:c://x"))) for one in (*others, key)]
    joined = Catalogue(parts)
    shown = joined.shown_uri(key, "b:c://x")
    assert joined.owner_of(shown) == (key, "b:c://x")


def test_a_uri_that_only_a_template_has_belongs_to_its_server() -> None:
    joined = catalogue(git=offers(templates=("a://{id}",)), web=offers(templates=("b://{id}/{part}",)))
    assert joined.owner_of("b://5/x") == ("web", "b://5/x")
    assert joined.owner_of("b://{id}/{part}") == ("web", "b://{id}/{part}")
    assert joined.owner_of("c://5") is None
    assert joined.shown_uri("git", "a://5") == "a://5"


def test_a_uri_that_two_templates_match_is_not_clear() -> None:
    joined = catalogue(git=offers(templates=("a://{id}",)), web=offers(templates=("a://{name}",)))
    assert joined.owner_of("a://5") is None
    assert joined.shown_uri("web", "a://5") == "gateway:web:a://5"


def test_a_template_that_several_servers_have_names_its_server() -> None:
    joined = catalogue(git=offers(templates=("a://{id}",)), web=offers(templates=("a://{id}",)))
    assert [uri for uri, _ in joined.listed_templates()] == ["gateway:git:a://{id}", "gateway:web:a://{id}"]
    assert joined.owner_of("gateway:web:a://5") == ("web", "a://5")


def test_a_uri_in_a_result_that_would_lead_to_another_server_names_its_own() -> None:
    joined = catalogue(git=offers(uris=("a://x",)), web=offers())
    assert joined.shown_uri("git", "a://x") == "a://x"
    assert joined.shown_uri("web", "a://x") == "gateway:web:a://x"
    assert joined.shown_uri("web", "unlisted://x") == "gateway:web:unlisted://x"


def test_a_template_that_is_not_one_is_listed_and_matches_nothing() -> None:
    joined = catalogue(git=offers(templates=("a://{id",)), web=offers(templates=("b://{id}",)))
    assert [uri for uri, _ in joined.listed_templates()] == ["a://{id", "b://{id}"]
    assert joined.owner_of("b://5") == ("web", "b://5")


def test_the_servers_of_resources_below_a_uri_are_found() -> None:
    joined = catalogue(
        git=offers(uris=("a://x/1",)), web=offers(templates=("a://x/{id}",)), other=offers(uris=("b://x",))
    )
    assert joined.owners_below("a://x/") == ["git", "web"]


def test_the_page_of_an_app_is_found_under_its_uri_for_clients() -> None:
    meta = {"ui": {"resourceUri": "ui://page"}, "other": 1}
    shows_page = tool("chart", meta=meta)
    joined = catalogue(a=offers(tools=(shows_page,), uris=("ui://page",)), b=offers(uris=("ui://page",)))
    [(_, listed)] = joined.listed_tools()
    assert listed.meta == {"ui": {"resourceUri": "ui://gateway/a/page"}, "other": 1}
    assert [uri for uri, _ in joined.listed_resources()] == ["ui://gateway/a/page", "ui://gateway/b/page"]
    assert joined.owner_of("ui://gateway/b/page") == ("b", "ui://page")
    assert meta["ui"] == {"resourceUri": "ui://page"}, "the definition of the server is not changed"


def test_arguments_in_headers_are_known_by_the_names_that_clients_use() -> None:
    mirrored = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    wrong = {"type": "object", "properties": {"region": {"type": "object", "x-mcp-header": "Region"}}}
    joined = catalogue(git=offers(tools=(tool("log", mirrored), tool("bad", wrong), "plain")))
    assert joined.mirrored() == {"git__log": {("region",): "Region"}}


def test_each_catalogue_has_a_number_of_its_own() -> None:
    assert catalogue(git=offers()).number != catalogue(git=offers()).number


@pytest.mark.parametrize("key", ["a", "a__b", "a_", "a.b", "k" * 49, "k" * 55, "k" * 60, "k" * 80, "x", "axx"])
@pytest.mark.parametrize("name", ["c", "x", "__c", "c" * 80, "a.b", "c_0123456789ab"])
def test_a_name_for_clients_may_be_of_the_server_that_has_it(key: str, name: str) -> None:
    assert may_be_of(key, tool_name(key, name))


def test_a_name_for_clients_is_not_of_a_server_with_another_key() -> None:
    assert not may_be_of("a", "b__c") and not may_be_of("a", "ab__c")


def test_a_uri_names_the_server_before_its_second_colon() -> None:
    assert named_server("gateway:a%3Ab:c://x", ["a", "a:b"]) == "a:b"
    assert named_server("gateway:none:c://x", ["a"]) is None
    assert named_server("c://x", ["a"]) is None
    assert named_server("ui://gateway/a%2Fb/x", ["a", "a/b"]) == "a/b"
    assert named_server("ui://gateway/none/x", ["a"]) is None


@pytest.mark.parametrize("server", ["a", "a:b", "a/b", "ui://gateway/a"])
@pytest.mark.parametrize("uri", ["c://x", "ui://x/y", "ui://gateway/a/x", "gateway:a:x", ""])
def test_a_uri_that_names_its_server_leads_back_to_the_one_of_the_server(server: str, uri: str) -> None:
    assert own_uri(server, prefixed_uri(server, uri)) == uri


def test_the_owners_of_a_uri_are_all_servers_that_have_it_and_each_is_shown_with_a_uri_of_its_own() -> None:
    joined = catalogue(a=offers(uris=("n://1",)), b=offers(uris=("n://1",)), c=offers(templates=("t://{x}",)))
    assert joined.owners_of("n://1") == [("a", "n://1"), ("b", "n://1")]
    assert [joined.shown_uri(*owner) for owner in joined.owners_of("n://1")] == ["gateway:a:n://1", "gateway:b:n://1"]
    assert joined.owners_of("gateway:b:n://1") == [("b", "n://1")]
    assert joined.owners_of("t://1") == [("c", "t://1")]
    assert joined.owners_of("gateway:d:n://1") == joined.owners_of("n://2") == []
