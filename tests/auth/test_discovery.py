"""The way from a server to its authorization server, and the ways that are closed."""

from typing import Any

import pytest

from dovetail.auth.challenge import Challenge
from dovetail.auth.discovery import (
    DiscoveryResult,
    authorization_server_urls,
    discover,
    find_protected_resource,
    protected_resource_urls,
)
from dovetail.auth.errors import AuthorizationFailed, Untrusted
from tests.auth.web import Web

SERVER = "https://mcp.example.com/v1/mcp"
AT_PATH = "https://mcp.example.com/.well-known/oauth-protected-resource/v1/mcp"
AT_ROOT = "https://mcp.example.com/.well-known/oauth-protected-resource"
OWN_OAUTH = "https://mcp.example.com/.well-known/oauth-authorization-server"
OWN_OPENID = "https://mcp.example.com/.well-known/openid-configuration"
ISSUER = "https://auth.example.com"
OAUTH = "https://auth.example.com/.well-known/oauth-authorization-server"
OPENID = "https://auth.example.com/.well-known/openid-configuration"


def card(issuer: str = ISSUER, **more: Any) -> dict[str, Any]:
    return {"issuer": issuer, "token_endpoint": f"{issuer.rstrip('/')}/token", **more}


def protected(*issuers: str, resource: str = SERVER) -> dict[str, Any]:
    return {"resource": resource, "authorization_servers": issuers or (ISSUER,)}


def named(url: str) -> Challenge:
    return Challenge("bearer", {"resource_metadata": url})


def find(pages: dict[str, Any], challenge: Challenge | None = None, **options: Any) -> tuple[DiscoveryResult, Web]:
    web = Web(pages)
    return web.run(discover(SERVER, challenge or Challenge("bearer"), **options)), web


def test_the_challenge_names_the_place() -> None:
    found, web = find({"https://cdn.example/x.json": protected(), OAUTH: card()}, named("https://cdn.example/x.json"))
    assert web.urls == ["https://cdn.example/x.json", OAUTH]
    assert found.resource == SERVER and found.server.issuer == ISSUER
    assert found.protected and found.protected.authorization_servers == (ISSUER,)


@pytest.mark.parametrize(
    ("pages", "asked"),
    [
        ({AT_PATH: protected(), OAUTH: card()}, [AT_PATH, OAUTH]),
        ({AT_ROOT: protected(), OAUTH: card()}, [AT_PATH, AT_ROOT, OAUTH]),
        ({AT_PATH: b"<html>", AT_ROOT: protected(), OPENID: card()}, [AT_PATH, AT_ROOT, OAUTH, OPENID]),
        ({AT_PATH: 401, AT_ROOT: protected(), OAUTH: 500, OPENID: card()}, [AT_PATH, AT_ROOT, OAUTH, OPENID]),
        ({AT_PATH: protected(), OAUTH: {"hello": 1}, OPENID: card()}, [AT_PATH, OAUTH, OPENID]),
        ({AT_PATH: protected(), OAUTH: 302, OPENID: card()}, [AT_PATH, OAUTH, OPENID]),
    ],
)
def test_well_known_places_in_their_order(pages: dict[str, Any], asked: list[str]) -> None:
    _, web = find(pages)
    assert web.urls == asked


def test_a_place_that_is_named_but_empty() -> None:
    _, web = find({AT_PATH: protected(), OAUTH: card()}, named("https://mcp.example.com/gone"))
    assert web.urls == ["https://mcp.example.com/gone", AT_PATH, OAUTH]


def test_an_authorization_server_with_a_path() -> None:
    assert list(authorization_server_urls(ISSUER + "/tenant1")) == [
        "https://auth.example.com/.well-known/oauth-authorization-server/tenant1",
        "https://auth.example.com/.well-known/openid-configuration/tenant1",
        "https://auth.example.com/tenant1/.well-known/openid-configuration",
    ]
    assert list(authorization_server_urls(ISSUER + "/tenant1/")) == list(authorization_server_urls(ISSUER + "/tenant1"))
    assert list(authorization_server_urls(ISSUER + "/")) == list(authorization_server_urls(ISSUER)) == [OAUTH, OPENID]


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("https://a.com", [""]),
        ("https://a.com/", [""]),
        ("https://a.com/mcp", ["/mcp", ""]),
        ("https://a.com/mcp/", ["/mcp/", "/mcp", ""]),
        ("https://a.com/mcp?t=1", ["/mcp?t=1", ""]),
    ],
)
def test_the_well_known_urls_of_an_authorization_server(url: str, places: list[str]) -> None:
    assert [place.partition("resource")[2] for place in protected_resource_urls(url)] == places


def test_the_resource_is_the_identifier_in_the_metadata() -> None:
    found, _ = find({AT_ROOT: protected(resource="https://mcp.example.com"), OAUTH: card()})
    assert found.resource == "https://mcp.example.com"


def test_the_authorization_server_where_we_are_known_comes_first() -> None:
    other = "https://other.example"
    pages = {AT_PATH: protected(ISSUER, other), OAUTH: card(), f"{other}/.well-known/openid-configuration": card(other)}
    assert find(pages, known=[other])[0].server.issuer == other
    assert find(pages)[0].server.issuer == ISSUER


def test_an_authorization_server_that_is_down_is_passed_over() -> None:
    other = "https://other.example"
    pages = {AT_PATH: protected(ISSUER, other), f"{other}/.well-known/oauth-authorization-server": card(other)}
    assert find(pages)[0].server.issuer == other


def test_no_authorization_server_has_metadata() -> None:
    many = [f"https://a{number}.example" for number in range(9)]
    web = Web({AT_PATH: protected(*many)})
    with pytest.raises(AuthorizationFailed, match=r"https://a0\.example has no metadata"):
        web.run(discover(SERVER))
    assert len(web.requests) == 1 + 4 * 2


def test_a_server_of_the_first_revision_with_metadata() -> None:
    found, web = find({OWN_OAUTH: card("https://mcp.example.com")})
    assert web.urls == [AT_PATH, AT_ROOT, OWN_OAUTH]
    assert found.protected is None and found.resource == SERVER
    assert found.server.token_endpoint == "https://mcp.example.com/token" and not found.server.without_metadata


def test_its_issuer_may_end_with_a_slash() -> None:
    assert find({OWN_OPENID: card("https://mcp.example.com/")})[0].server.issuer == "https://mcp.example.com/"


def test_a_server_of_the_first_revision_without_metadata() -> None:
    found, web = find({})
    assert web.urls == [AT_PATH, AT_ROOT, OWN_OAUTH, OWN_OPENID]
    assert found.server.without_metadata and found.server.authorization_endpoint == "https://mcp.example.com/authorize"


def test_our_headers_go_to_the_server_only() -> None:
    place = "https://cdn.example/x.json"
    _, web = find({AT_PATH: protected(), OAUTH: card()}, named(place), headers={"mcp-protocol-version": "x"})
    assert {request.url: "mcp-protocol-version" in request.headers for request in web.requests} == {
        place: False,
        AT_PATH: True,
        OAUTH: False,
    }


# Attacks.


def refused(pages: dict[str, Any], challenge: Challenge | None = None) -> list[str]:
    web = Web(pages)
    with pytest.raises(Untrusted):
        web.run(discover(SERVER, challenge or Challenge("bearer")))
    return web.urls


def test_metadata_of_another_resource_end_the_search() -> None:
    pages = {AT_PATH: protected(resource="https://evil.example.com/mcp"), AT_ROOT: protected(), OAUTH: card()}
    assert refused(pages) == [AT_PATH]


def test_metadata_of_another_issuer_end_the_search() -> None:
    assert refused({AT_PATH: protected(), OAUTH: card("https://honest.example"), OPENID: card()}) == [AT_PATH, OAUTH]


def test_a_lie_of_one_authorization_server_is_not_passed_over() -> None:
    other = "https://other.example"
    pages = {
        AT_PATH: protected(ISSUER, other),
        OAUTH: card(other),
        f"{other}/.well-known/openid-configuration": card(other),
    }
    assert refused(pages) == [AT_PATH, OAUTH]


def test_another_authorization_server_cannot_be_had_from_the_own_origin() -> None:
    assert refused({OWN_OAUTH: card("https://honest.example")}) == [AT_PATH, AT_ROOT, OWN_OAUTH]


@pytest.mark.parametrize(
    "place",
    [
        *(
            "http://169.254.169.254/latest/meta-data",
            "http://mcp.example.com/x",
            "file:///etc/passwd",
            "http://localhost/x",
        ),
        *("https://u:p@mcp.example.com/x", "https://mcp.example.com/x#y", "gopher://x", "https://[::ffff:127.0.0.1]/"),
    ],
)
def test_a_challenge_cannot_send_us_anywhere(place: str) -> None:
    assert refused({}, named(place)) == []


def test_a_broken_server_does_not_change_its_authorization_server() -> None:
    for pages in ({AT_PATH: 503}, {OWN_OAUTH: 500}):
        web = Web({**pages, AT_ROOT: 404})
        with pytest.raises(AuthorizationFailed, match="instead of metadata"):
            web.run(discover(SERVER))


def test_without_metadata_a_server_must_be_reached_safely() -> None:
    with pytest.raises(Untrusted, match="not https"):
        Web({}).run(discover("http://mcp.example.com/mcp"))


def test_a_connection_that_breaks_ends_the_search() -> None:
    def broken(request: object) -> None:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        Web({AT_PATH: broken}).run(find_protected_resource(SERVER))
