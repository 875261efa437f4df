"""What servers say of themselves is taken only if it is theirs."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.auth.errors import AuthorizationFailed, Untrusted
from dovetail.auth.metadata import (
    AuthorizationServer,
    ProtectedResource,
    canonical_url,
    check_issuer,
    covers,
    default_endpoints,
    encode_protected_resource,
    read_authorization_server,
    read_protected_resource,
)

SERVER = "https://mcp.example.com/v1/mcp"
ISSUER = "https://auth.example.com"


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://mcp.example.com/mcp", "https://mcp.example.com/mcp"),
        ("https://mcp.example.com/", "https://mcp.example.com"),
        ("https://mcp.example.com", "https://mcp.example.com"),
        ("HTTPS://MCP.Example.com:443/Mcp", "https://mcp.example.com/Mcp"),
        ("https://mcp.example.com:8443", "https://mcp.example.com:8443"),
        ("http://localhost:80/mcp#x", "http://localhost/mcp"),
        ("http://[::1]:3000/mcp/", "http://[::1]:3000/mcp/"),
        ("https://a.com/mcp?tenant=1", "https://a.com/mcp?tenant=1"),
    ],
)
def test_urls_have_a_canonical_form(url: str, expected: str) -> None:
    assert canonical_url(url) == expected
    assert canonical_url(expected) == expected


@pytest.mark.parametrize(
    "resource",
    [SERVER, SERVER + "/", "https://mcp.example.com", "https://MCP.example.com:443/v1", "https://mcp.example.com/v1/"],
)
def test_a_resource_that_is_the_server(resource: str) -> None:
    assert covers(resource, SERVER)


@pytest.mark.parametrize(
    "resource",
    [
        *(
            "https://evil.example.com/v1/mcp",
            "https://mcp.example.com.evil.com/v1/mcp",
            "http://mcp.example.com/v1/mcp",
        ),
        *("https://mcp.example.com:444/v1/mcp", "https://mcp.example.com/v1/mc", "https://mcp.example.com/v1/mcp/x"),
        *("https://mcp.example.com/v2", "https://mcp.example.com/v1/../v1/mcp", "https://mcp.example.com?tenant=1"),
        *("https://u@mcp.example.com/v1/mcp", SERVER + "#x", "mcp.example.com", "", "urn:x"),
    ],
)
def test_a_resource_that_is_not(resource: str) -> None:
    assert not covers(resource, SERVER)


def test_a_path_that_leads_back_is_not_followed() -> None:
    assert not covers("https://a.com/a", "https://a.com/a/../b")
    assert not covers("https://a.com/a", "https://a.com/a/./b")


def test_a_query_that_is_named_must_be_the_servers() -> None:
    assert covers("https://a.com/mcp?t=1", "https://a.com/mcp?t=1")
    assert covers("https://a.com/mcp", "https://a.com/mcp?t=1")
    assert not covers("https://a.com/mcp?t=2", "https://a.com/mcp?t=1")


def test_protected_resource_is_read() -> None:
    body = encode(
        {
            "resource": SERVER,
            "authorization_servers": [ISSUER],
            "scopes_supported": ["a", "b c", "a"],
            "resource_name": "Files",
            "dpop_bound_access_tokens_required": True,
            "dpop_signing_alg_values_supported": ["ES256"],
            "unknown": {"x": 1},
        }
    )
    assert read_protected_resource(body, "https://x", SERVER) == ProtectedResource(
        resource=SERVER,
        authorization_servers=(ISSUER,),
        scopes_supported=("a",),
        resource_name="Files",
        dpop_bound_access_tokens_required=True,
        dpop_signing_alg_values_supported=("ES256",),
    )


def test_no_scopes_differ_from_none_said() -> None:
    said = read_protected_resource(encode({"resource": SERVER, "scopes_supported": []}), "x", SERVER)
    unsaid = read_protected_resource(encode({"resource": SERVER}), "x", SERVER)
    assert said and said.scopes_supported == ()
    assert unsaid and unsaid.scopes_supported is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"status": "ok"}'])
def test_other_documents_are_not_metadata(body: bytes) -> None:
    assert read_protected_resource(body, "x", SERVER) is None
    assert read_authorization_server(body, "x", (ISSUER,)) is None


def test_metadata_of_another_resource_are_refused() -> None:
    with pytest.raises(Untrusted, match=r"those of https://evil\.example\.com/mcp, not of"):
        read_protected_resource(encode({"resource": "https://evil.example.com/mcp"}), "x", SERVER)


def test_metadata_without_a_resource_are_refused() -> None:
    with pytest.raises(AuthorizationFailed, match="no resource"):
        read_protected_resource(encode({"authorization_servers": [ISSUER]}), "x", SERVER)


@pytest.mark.parametrize(
    "issuer",
    [
        *("http://auth.example.com", "https://u@auth.example.com", "https://auth.example.com?x", "https://a.com#x", ""),
        *("javascript:alert(1)", "file:///etc/passwd", "http://169.254.169.254", "http://localhost:9"),
    ],
)
def test_authorization_servers_that_are_none(issuer: str) -> None:
    with pytest.raises(Untrusted):
        read_protected_resource(encode({"resource": SERVER, "authorization_servers": [ISSUER, issuer]}), "x", SERVER)


def test_a_server_on_this_machine_may_have_its_authorization_server_there() -> None:
    check_issuer("http://localhost:9", source="http://127.0.0.1:8/mcp")


FULL = {
    "issuer": ISSUER,
    "authorization_endpoint": ISSUER + "/authorize",
    "token_endpoint": ISSUER + "/token",
    "registration_endpoint": ISSUER + "/register",
    "scopes_supported": ["a", "offline_access"],
    "code_challenge_methods_supported": ["plain", "S256"],
    "token_endpoint_auth_methods_supported": ["none"],
    "authorization_response_iss_parameter_supported": True,
    "client_id_metadata_document_supported": True,
}


def test_authorization_server_is_read() -> None:
    found = read_authorization_server(encode(FULL), "x", (ISSUER,))
    assert found
    assert found == AuthorizationServer(
        issuer=ISSUER,
        authorization_endpoint=ISSUER + "/authorize",
        token_endpoint=ISSUER + "/token",
        registration_endpoint=ISSUER + "/register",
        scopes_supported=("a", "offline_access"),
        code_challenge_methods_supported=("plain", "S256"),
        token_endpoint_auth_methods_supported=("none",),
        authorization_response_iss_parameter_supported=True,
        client_id_metadata_document_supported=True,
    )
    found.check_pkce()


@pytest.mark.parametrize(
    "issuer", [ISSUER + "/", "https://AUTH.example.com", ISSUER + ":443", "https://honest.example"]
)
def test_the_issuer_is_compared_letter_by_letter(issuer: str) -> None:
    with pytest.raises(Untrusted, match="are those of"):
        read_authorization_server(encode({**FULL, "issuer": issuer}), "x", (ISSUER,))


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "registration_endpoint", "jwks_uri"])
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://auth.example.com/x",
        "http://localhost/x",
        "https://a.com/#x",
        "calc",
    ],
)
def test_endpoints_that_must_not_be_used(name: str, url: str) -> None:
    with pytest.raises(Untrusted, match=f"The {name} of"):
        read_authorization_server(encode({**FULL, name: url}), "x", (ISSUER,))


@pytest.mark.parametrize("methods", [None, [], ["plain"], ["s256"]])
def test_without_s256_there_is_no_login(methods: list[str] | None) -> None:
    found = read_authorization_server(encode({**FULL, "code_challenge_methods_supported": methods}), "x", (ISSUER,))
    assert found
    with pytest.raises(Untrusted, match="PKCE"):
        found.check_pkce()


def test_a_server_without_metadata_must_have_it_unsaid() -> None:
    server = default_endpoints("https://a.com")
    server.check_pkce()
    assert server.authorization_endpoint == "https://a.com/authorize"
    assert server.token_endpoint == "https://a.com/token"
    assert server.registration_endpoint == "https://a.com/register"


FIELDS = st.dictionaries(
    st.sampled_from([*FULL, "resource", "authorization_servers", "grant_types_supported"]),
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.text()), st.just(ISSUER), st.just(SERVER)
    ),
)


@given(FIELDS)
def test_any_document_is_read_or_refused(fields: dict[str, Any]) -> None:
    with contextlib.suppress(AuthorizationFailed):
        found = read_authorization_server(encode(fields), "x", (ISSUER,))
        assert found is None or found.issuer == ISSUER
    with contextlib.suppress(AuthorizationFailed):
        resource = read_protected_resource(encode(fields), "x", SERVER)
        assert resource is None or covers(resource.resource, SERVER)


def test_an_encoded_metadata_document_can_be_read() -> None:
    given = ProtectedResource(resource=SERVER, authorization_servers=(ISSUER,), scopes_supported=("a", "b"))
    assert read_protected_resource(encode_protected_resource(given), "x", SERVER) == given
    assert msgspec.json.decode(encode_protected_resource(given)) == {
        "resource": SERVER,
        "authorization_servers": [ISSUER],
        "scopes_supported": ["a", "b"],
        "bearer_methods_supported": ["header"],
    }
