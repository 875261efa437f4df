"""Requests as clients make them, for tests of the authorization server."""

from __future__ import annotations

from typing import Any

from dovetail.auth.authorization_code import pkce_challenge
from dovetail.auth.http import Document
from dovetail.testing.auth_server.authorize_request import Offer, UserAuthorization, parse_authorization
from dovetail.testing.auth_server.clients import KnownClient, parse_client_metadata

NOW = 1_000_000.0
BACK = "http://127.0.0.1:3000/callback"
RESOURCE = "http://127.0.0.1:8000/mcp"
VERIFIER = "v" * 43
CLIENT = KnownClient(id="desk", name="Desk", redirect_uris=(BACK,))
FIELDS = {
    "response_type": "code",
    "client_id": "desk",
    "redirect_uri": BACK,
    "state": "s1",
    "code_challenge": pkce_challenge(VERIFIER),
    "code_challenge_method": "S256",
    "resource": RESOURCE,
    "scope": "read write",
}


class Dice:
    """Chance that repeats itself never, and is the same in every run."""

    def __init__(self) -> None:
        self.thrown = 0

    def __call__(self, size: int) -> bytes:
        self.thrown += 1
        return self.thrown.to_bytes(size, "big")


def about(**fields: Any) -> KnownClient:
    """A client that says this of itself."""
    given = {"client_name": "Desk", "redirect_uris": [BACK], "token_endpoint_auth_method": "none", **fields}
    return parse_client_metadata(Document({name: value for name, value in given.items() if value is not None}, "It"))


def authorization(
    offer: Offer | None = None, client: KnownClient | None = CLIENT, /, **changes: str | None
) -> UserAuthorization:
    """A request, but for the changes."""
    fields = {name: value for name, value in {**FIELDS, **changes}.items() if value is not None}
    return parse_authorization(fields, client, offer or Offer())
