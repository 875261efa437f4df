"""Client authentication at the token endpoint: client identifier, secret or signed assertion.

2026-07-28 client registration, "Authorization Server Binding": credentials belong to the authorization server that
issued them, and are never sent to another. RFC 6749, section 2.3; RFC 7523, section 2.2.
"""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote_plus

import msgspec

from dovetail.protocol.errors import LocalError

from .errors import AuthorizationFailed, Untrusted, printable
from .http import Random
from .jwk import SigningKey, encode64
from .jwt import sign
from .metadata import AuthorizationServer

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_SECONDS = 60
METHODS = ("private_key_jwt", "client_secret_basic", "client_secret_post", "none")


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An OAuth client: its identifier and credentials."""

    id: str
    issuer: str | None = None
    """The authorization server it is registered with; None until it is first used."""
    portable: bool = False
    """Its identifier is the URL of a metadata document, which every authorization server can read."""
    secret: str | None = None
    secret_until: float | None = None
    key: str | None = None
    """A private key in PEM, for `private_key_jwt`."""
    kid: str | None = None
    auth_method: str | None = None
    redirect_uris: tuple[str, ...] = ()

    def at(self, issuer: str) -> OAuthClient:
        """The client bound to this authorization server; refused if it is registered with another."""
        if self.portable or self.issuer == issuer:
            return self
        if self.issuer is not None:
            raise Untrusted(
                f"The client {printable(self.id)} is registered with {printable(self.issuer)}; "
                f"its credentials are not for {printable(issuer)}"
            )
        return msgspec.structs.replace(self, issuer=issuer)

    def expired(self, now: float) -> bool:
        """True if its secret has expired."""
        return self.secret_until is not None and now >= self.secret_until

    def __repr__(self) -> str:
        return f"OAuthClient(id={self.id!r}, issuer={self.issuer!r})"  # all other fields are secret


def auth_method(server: AuthorizationServer, client: OAuthClient) -> str:
    """The authentication method: the one it was registered with, else the strongest that both sides support.

    A server that declares none supports `client_secret_basic` (RFC 8414, section 2).
    """
    supported = {
        "private_key_jwt": client.key is not None,
        "client_secret_basic": client.secret is not None,
        "client_secret_post": client.secret is not None,
        "none": True,
    }
    if client.auth_method is not None:
        if not supported.get(client.auth_method):
            raise LocalError(f"The client {client.id!r} lacks the credentials for {client.auth_method!r}")
        return client.auth_method
    accepted = server.token_endpoint_auth_methods_supported
    if accepted is None:
        accepted = ("client_secret_basic", "none", *(["private_key_jwt"] if client.key else []))
    for method in METHODS:
        if supported[method] and method in accepted:
            return method
    if client.secret is None and client.key is None:
        return "none"
    raise AuthorizationFailed(
        f"{printable(server.issuer)} accepts {printable(', '.join(accepted)) or 'no credentials'}, "
        f"which the client does not have"
    )


def authenticate(
    server: AuthorizationServer, client: OAuthClient, *, now: float, random: Random
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The headers and form fields that authenticate the client."""
    client = client.at(server.issuer)
    if client.expired(now):
        raise AuthorizationFailed(f"The secret of the client {printable(client.id)} has expired")
    method = auth_method(server, client)
    if method == "private_key_jwt":
        assertion = _assertion(server, client, now, random)
        return {}, [("client_assertion_type", ASSERTION), ("client_assertion", assertion)]
    secret = client.secret or ""
    if method == "client_secret_basic":
        pair = f"{quote_plus(client.id)}:{quote_plus(secret)}"
        return {"authorization": f"Basic {b64encode(pair.encode()).decode()}"}, []
    if method == "client_secret_post":
        return {}, [("client_id", client.id), ("client_secret", secret)]
    return {}, [("client_id", client.id)]


def _assertion(server: AuthorizationServer, client: OAuthClient, now: float, random: Random) -> str:
    assert client.key is not None
    key = SigningKey.from_pem(client.key, client.kid)
    accepted = server.token_endpoint_auth_signing_alg_values_supported
    if accepted is not None and key.alg not in accepted:
        raise AuthorizationFailed(f"{printable(server.issuer)} accepts no assertions signed with {key.alg}")
    claims = {
        "iss": client.id,
        "sub": client.id,
        "aud": server.issuer,  # not the token endpoint, which another server could declare as its own
        "jti": encode64(random(16)),
        "iat": int(now),
        "exp": int(now) + ASSERTION_SECONDS,
    }
    return sign(claims, key)
