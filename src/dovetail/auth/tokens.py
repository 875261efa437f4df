"""Tokens of a token endpoint, and `Account`: a stored login."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dovetail.protocol.errors import LocalError

from . import scopes
from .client_authentication import OAuthClient
from .errors import AuthorizationFailed, Denied, Untrusted, printable
from .http import Document, OAuthResponse

REFRESH_EARLY = 60.0
"""Seconds before its expiry at which a token is refreshed; a tenth of its lifetime if that is less."""
MAX_SECONDS = 10 * 366 * 86400
_TOKEN = re.compile(r"[\x21-\x7e]+")


class Tokens(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens in a response of a token endpoint."""

    access_token: str
    token_type: str = "Bearer"
    obtained_at: float = 0.0
    expires_at: float | None = None
    refresh_token: str | None = None
    scopes: tuple[str, ...] | None = None
    """The scopes of the token; None if the server did not say, which means those that were requested."""
    id_token: str | None = None
    issued_token_type: str | None = None

    @property
    def authorization(self) -> str:
        """The value of the Authorization header."""
        return f"{self.token_type} {self.access_token}"

    def expired(self, now: float) -> bool:
        """True if the access token has expired."""
        return self.expires_at is not None and now >= self.expires_at

    def needs_refresh(self, now: float) -> bool:
        """True if the access token expires soon."""
        if self.expires_at is None:
            return False
        return now >= self.expires_at - min(REFRESH_EARLY, max(0.0, self.expires_at - self.obtained_at) / 10)

    def merged_with(self, earlier: Tokens) -> Tokens:
        """These tokens, with the fields of the earlier ones that a refresh leaves unchanged (RFC 6749, section 6)."""
        return msgspec.structs.replace(
            self,
            refresh_token=self.refresh_token or earlier.refresh_token,
            scopes=earlier.scopes if self.scopes is None else self.scopes,
            id_token=self.id_token or earlier.id_token,
        )

    def __repr__(self) -> str:
        return f"Tokens(token_type={self.token_type!r}, expires_at={self.expires_at!r}, scopes={self.scopes!r})"


class Account(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored login at one MCP server: client, authorization server and tokens."""

    version: int = 1
    resource: str
    issuer: str
    client: OAuthClient
    tokens: Tokens
    requested: tuple[str, ...] = ()
    """All scopes requested so far: a later login requests them again."""
    dpop_key: str | None = None
    """The key that the tokens are bound to, in PEM format."""

    def __repr__(self) -> str:
        return f"Account(resource={self.resource!r}, issuer={self.issuer!r}, client={self.client!r})"

    def renewed(self, tokens: Tokens) -> Account:
        """The account with the tokens of a refresh."""
        return msgspec.structs.replace(self, tokens=tokens.merged_with(self.tokens))

    def encode(self) -> bytes:
        """Encode with all secrets; the caller must encrypt the bytes before storing them."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(content: bytes) -> Account:
        """Decode a stored account; raises LocalError if it cannot be used."""
        try:
            account = msgspec.json.decode(content, type=Account)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise LocalError("The stored login cannot be read: log in again") from None
        if account.version != 1 or (not account.client.portable and account.client.issuer != account.issuer):
            raise LocalError("The stored login cannot be used: log in again")
        return account


def read_tokens(response: OAuthResponse, where: str, *, now: float, types: tuple[str, ...] = ("Bearer",)) -> Tokens:
    """Read a response of a token endpoint (RFC 6749, section 5); the token must be of one of these types."""
    what = f"The response of {printable(where)}"
    problem = token_error(response, what)
    if problem is not None:
        raise problem
    if response.status != 200:
        raise AuthorizationFailed(f"{printable(where)} answered {response.status} instead of a token")
    document = Document.read(response.body, what)
    access, refresh = document.needed("access_token", 65536), document.text("refresh_token", 65536)
    if not _TOKEN.fullmatch(access):
        raise AuthorizationFailed(f"{what} has a token with spaces, line breaks or special characters")
    named = document.needed("token_type")
    kind = next((each for each in types if each.lower() == named.lower()), None)
    if kind is None:
        raise Untrusted(f"{what} has a token of the type {printable(named)}, where {' or '.join(types)} was requested")
    scope = document.fields.get("scope")
    seconds = _seconds(document.fields.get("expires_in"))
    return Tokens(
        access_token=access,
        token_type=kind,
        obtained_at=now,
        expires_at=None if seconds is None else now + seconds,
        refresh_token=refresh,
        scopes=scopes.split(scope) if isinstance(scope, str) else None,
        id_token=document.text("id_token", 65536),
        issued_token_type=document.text("issued_token_type"),
    )


def token_error(response: OAuthResponse, what: str) -> Denied | None:
    """The error in a response of a token endpoint, if there is one; some come with status 200."""
    try:
        document = Document.read(response.body, what)
        error = document.text("error")
        description = document.fields.get("error_description")
    except AuthorizationFailed:
        return None
    if error is None:
        return None
    return Denied(error, description if isinstance(description, str) else "", status=response.status)


def _seconds(value: Any) -> float | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return min(max(0.0, float(value)), MAX_SECONDS)
