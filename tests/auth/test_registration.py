"""How a client becomes known, in the order of the specification."""

from typing import Any

import msgspec
import pytest

from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.errors import AuthorizationFailed, ClientNeeded, Denied, Untrusted
from dovetail.auth.http import OAuthRequest, OAuthResponse
from dovetail.auth.metadata import AuthorizationServer
from dovetail.auth.registration import ClientMetadata, get_client
from dovetail.protocol.errors import LocalError
from tests.auth.web import Web

ISSUER = "https://auth.example.com"
REGISTER = ISSUER + "/register"
DOCUMENT = "https://app.example.com/client.json"
NOW = 1_800_000_000.0
ABOUT = ClientMetadata(name="Dovetail", redirect_uris=("http://127.0.0.1:3000/callback",))
GIVEN = OAuthClient(id="given", secret="s")
KNOWN = OAuthClient(id="known", issuer=ISSUER, redirect_uris=ABOUT.redirect_uris)


def server(issuer: str = ISSUER, **more: Any) -> AuthorizationServer:
    return AuthorizationServer(issuer=issuer, **{"registration_endpoint": REGISTER, **more})


def get(
    at: AuthorizationServer, answer: Any = None, about: ClientMetadata = ABOUT, **options: Any
) -> tuple[OAuthClient, list[dict]]:
    web = Web({REGISTER: answer if answer is not None else {"client_id": "new"}})
    client = web.run(get_client(at, about, now=NOW, **options))
    return client, [msgspec.json.decode(request.body) for request in web.requests]


def test_configured_clients_come_before_documents_and_registration() -> None:
    everything: dict[str, Any] = {"configured": GIVEN, "document": DOCUMENT, "registered": KNOWN}
    able = server(client_id_metadata_document_supported=True)
    assert get(able, **everything) == (GIVEN.at(ISSUER), [])
    del everything["configured"]
    client, asked = get(able, **everything)
    assert (client.id, client.portable, asked) == (DOCUMENT, True, [])
    assert get(server(), **everything) == (KNOWN, [])
    client, asked = get(server(), document=DOCUMENT)
    assert client.id == "new" and client.issuer == ISSUER and len(asked) == 1
    with pytest.raises(ClientNeeded, match="client_id"):
        get(server(registration_endpoint=None))


def test_a_registration_request_has_the_client_metadata() -> None:
    _, [asked] = get(server(), scope=("a", "b"))
    assert asked == {
        "client_name": "Dovetail",
        "scope": "a b",
        "redirect_uris": ["http://127.0.0.1:3000/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    }


@pytest.mark.parametrize(
    ("uris", "expected"),
    [
        (("http://localhost:1/x", "http://[::1]:2/x"), "native"),
        (("https://app.example.com/cb",), "web"),
        (("https://app.example.com/cb", "http://localhost/x"), "web"),
    ],
)
def test_the_type_of_application(uris: tuple[str, ...], expected: str) -> None:
    assert ClientMetadata(name="x", redirect_uris=uris).application_type == expected


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        (None, "none"),
        (("client_secret_basic", "none"), "none"),
        (("client_secret_post",), "client_secret_post"),
        (("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (("tls_client_auth",), "none"),
    ],
)
def test_the_method_that_is_asked_for(methods: tuple[str, ...] | None, expected: str) -> None:
    _, [asked] = get(server(token_endpoint_auth_methods_supported=methods))
    assert asked["token_endpoint_auth_method"] == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        # With a secret and no word on its use, the metadata of the server decide.
        ({"client_id": "n", "client_secret": "s", "client_secret_expires_at": 0}, (None, "s", None)),
        ({"client_id": "n", "client_secret": "s", "token_endpoint_auth_method": "none"}, ("none", None, None)),
        (
            {"client_id": "n", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post"},
            ("client_secret_post", "s", None),
        ),
        (
            {
                "client_id": "n",
                "client_secret": "s",
                "token_endpoint_auth_method": "client_secret_basic",
                "client_secret_expires_at": 1_900_000_000,
            },
            ("client_secret_basic", "s", 1_900_000_000.0),
        ),
        ({"client_id": "n", "token_endpoint_auth_method": "client_secret_basic"}, ("none", None, None)),
        ({"client_id": "n", "client_secret_expires_at": True}, ("none", None, None)),
    ],
)
def test_the_registered_client_is_read_from_the_response(answer: dict[str, Any], expected: tuple[Any, ...]) -> None:
    client, _ = get(server(), OAuthResponse(201, {}, msgspec.json.encode(answer)))
    assert (client.auth_method, client.secret, client.secret_until) == expected


@pytest.mark.parametrize(
    ("answer", "problem", "match"),
    [
        (
            OAuthResponse(400, {}, b'{"error":"invalid_redirect_uri","error_description":"No \x1b loopback"}'),
            AuthorizationFailed,
            "400",
        ),
        (
            OAuthResponse(400, {}, b'{"error":"invalid_redirect_uri","error_description":"No loopback"}'),
            Denied,
            "No loopback",
        ),
        (OAuthResponse(500, {}, b"<html>"), AuthorizationFailed, "500"),
        (OAuthResponse(302, {"location": "https://evil.example"}), AuthorizationFailed, "302"),
        (OAuthResponse(201, {}, b"[]"), AuthorizationFailed, "JSON"),
        (OAuthResponse(201, {}, b"{}"), AuthorizationFailed, "client_id"),
        (OAuthResponse(201, {}, b'{"client_id": 7}'), AuthorizationFailed, "client_id"),
        (
            OAuthResponse(201, {}, b'{"client_id": "n", "client_secret": "s", "token_endpoint_auth_method": "mtls"}'),
            AuthorizationFailed,
            "mtls",
        ),
    ],
)
def test_a_registration_that_fails(answer: OAuthResponse, problem: type[Exception], match: str) -> None:
    with pytest.raises(problem, match=match):
        get(server(), answer)


def test_the_method_that_was_asked_for_counts_if_the_server_says_nothing() -> None:
    client, _ = get(
        server(token_endpoint_auth_methods_supported=("client_secret_post",)), {"client_id": "n", "client_secret": "s"}
    )
    assert client.auth_method == "client_secret_post"


def test_given_credentials_of_another_server_are_an_error() -> None:
    def never(request: OAuthRequest) -> OAuthResponse:
        pytest.fail("nothing may be sent")

    with pytest.raises(Untrusted, match="registered with"):
        get(server(), never, configured=GIVEN.at("https://other.example"), document=DOCUMENT)


@pytest.mark.parametrize(
    "known",
    [
        OAuthClient(id="known", issuer="https://other.example", redirect_uris=ABOUT.redirect_uris),
        OAuthClient(id="known", redirect_uris=ABOUT.redirect_uris),
        OAuthClient(id="known", issuer=ISSUER, secret="s", secret_until=NOW, redirect_uris=ABOUT.redirect_uris),
        OAuthClient(id="known", issuer=ISSUER, redirect_uris=("http://127.0.0.1:9/callback",)),
    ],
)
def test_a_registration_that_is_of_no_use_is_made_again(known: OAuthClient) -> None:
    assert get(server(), registered=known)[0].id == "new"


def test_the_document_of_a_client() -> None:
    document = ABOUT.document(DOCUMENT)
    assert document["client_id"] == DOCUMENT
    assert {"client_name", "redirect_uris", "grant_types"} <= set(document)


@pytest.mark.parametrize(
    "url",
    ["http://localhost/client.json", "https://app.example.com", "https://app.example.com/", "https://a.com/../x", "x"],
)
def test_urls_that_are_no_client(url: str) -> None:
    with pytest.raises(LocalError):
        ABOUT.document(url)
    with pytest.raises(LocalError):
        get(server(client_id_metadata_document_supported=True), document=url)


@pytest.mark.parametrize(
    "uri", ["http://app.example.com/cb", "myapp://callback", "https://a.com/#x", "javascript:x", ""]
)
def test_redirects_that_would_give_the_code_away(uri: str) -> None:
    with pytest.raises(LocalError):
        ClientMetadata(name="x", redirect_uris=(uri,))
