"""Who becomes a client, and where its users may be sent back to."""

from typing import Any

import pytest

from dovetail.auth.errors import AuthorizationFailed
from dovetail.auth.http import Document
from dovetail.testing.auth_server.clients import (
    ClientRegistry,
    KnownClient,
    parse_client_document,
    registration_response,
)
from dovetail.testing.auth_server.errors import RequestError
from tests.testing.auth_server.asks import BACK, CLIENT, NOW, Dice, about

REGISTRATION: dict[str, Any] = {"client_name": "Desk", "redirect_uris": [BACK], "token_endpoint_auth_method": "none"}


def register(registry: ClientRegistry, **changes: Any) -> KnownClient:
    return registry.register(Document({**REGISTRATION, **changes}, "It"))


def test_a_client_registers_and_is_found_again() -> None:
    registry = ClientRegistry(Dice())
    client = register(registry, grant_types=["authorization_code", "refresh_token"])
    assert registry.find(client.id) == client
    assert (client.name, client.redirect_uris, client.secret) == ("Desk", (BACK,), None)
    assert register(registry).id != client.id


def test_a_restart_forgets_no_client_without_a_secret() -> None:
    client = register(ClientRegistry(Dice()))
    assert ClientRegistry(lambda size: b"x" * size).find(client.id) == client


def test_a_secret_is_of_one_process_and_of_one_client() -> None:
    registry = ClientRegistry(Dice())
    one, other = (register(registry, token_endpoint_auth_method="client_secret_post") for _ in range(2))
    assert one.secret and other.secret and one.secret != other.secret
    later = ClientRegistry(lambda size: b"x" * size).find(one.id)
    assert later is not None and later.secret != one.secret
    assert registration_response(one, NOW)["client_secret"] == one.secret
    assert "client_secret" not in registration_response(CLIENT, NOW)


@pytest.mark.parametrize("made_up", ["", "dev.", "dev.!", "dev.bm9uc2Vuc2U", "somebody", "dev." + "A" * 3000])
def test_what_nobody_registered_is_not_known(made_up: str) -> None:
    assert ClientRegistry(Dice()).find(made_up) is None


def test_an_identifier_that_is_made_up_keeps_the_rules() -> None:
    import msgspec

    from dovetail.auth.jwk import encode64

    said = ["x", "Evil", ["http://evil.example/cb"], ["authorization_code"], "none"]
    assert ClientRegistry(Dice()).find("dev." + encode64(msgspec.json.encode(said))) is None
    said[2] = ["https://fine.example/cb"]
    assert ClientRegistry(Dice()).find("dev." + encode64(msgspec.json.encode(said))) is not None


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://shop.example/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://shop.example/cb#there"]}, "invalid_redirect_uri"),
        ({"redirect_uris": [BACK], "application_type": "web"}, "invalid_redirect_uri"),
        ({"redirect_uris": "https://shop.example/cb"}, "invalid_client_metadata"),
        ({"application_type": "toaster"}, "invalid_client_metadata"),
        ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"client_name": "x" * 101}, "invalid_client_metadata"),
    ],
)
def test_invalid_client_metadata_is_refused(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(RequestError) as caught:
        about(**changes)
    assert caught.value.error == error


def test_a_native_client_may_be_sent_back_here_and_a_web_client_elsewhere() -> None:
    assert about(application_type="native").redirect_uris == (BACK,)
    assert about(application_type="web", redirect_uris=["https://shop.example/cb"]).redirect_uris


def test_a_client_that_registers_gets_no_tokens_for_itself() -> None:
    assert about(grant_types=["authorization_code", "client_credentials"]).grants == ("authorization_code",)


@pytest.mark.parametrize(
    ("registered", "uri", "allowed"),
    [
        (BACK, BACK, True),
        (BACK, "http://127.0.0.1:4711/callback", True),
        ("http://127.0.0.1/callback", "http://127.0.0.1:4711/callback", True),
        ("http://localhost:1/cb", "http://localhost:2/cb", True),
        ("http://[::1]:1/cb", "http://[::1]:2/cb", True),
        (BACK, "http://127.0.0.1:3000/other", False),
        (BACK, "http://127.0.0.1:3000/callback?more", False),
        (BACK, "http://127.0.0.1:3000/callback#more", False),
        (BACK, "http://localhost:3000/callback", False),
        (BACK, "https://127.0.0.1:3000/callback", False),
        (BACK, "http://127.0.0.1:3000@evil.example/callback", False),
        (BACK, "http://127.0.0.1.evil.example/callback", False),
        ("https://shop.example/cb", "https://shop.example/cb", True),
        ("https://shop.example/cb", "https://shop.example:444/cb", False),
        ("https://shop.example/cb", "https://shop.example/cb/", False),
        ("https://shop.example/cb", "https://SHOP.example/cb", False),
    ],
)
def test_a_redirect_uri_is_the_registered_one_but_for_a_port_of_this_machine(
    registered: str, uri: str, allowed: bool
) -> None:
    client = KnownClient(id="c", name="C", redirect_uris=(registered,))
    if allowed:
        client.check_redirect(uri)
    else:
        with pytest.raises(RequestError):
            client.check_redirect(uri)


URL = "https://shop.example/client.json"


def test_a_document_is_about_the_client_whose_identifier_is_its_url() -> None:
    import json

    good = {**REGISTRATION, "client_id": URL}
    assert parse_client_document(URL, json.dumps(good).encode()).id == URL
    for bad in ({"client_id": URL + "?"}, {"client_secret": "x"}, {"redirect_uris": []}):
        with pytest.raises(RequestError):
            parse_client_document(URL, json.dumps({**good, **bad}).encode())
    with pytest.raises(AuthorizationFailed):
        parse_client_document(URL, b"<html>")
