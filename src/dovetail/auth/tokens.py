"""Tokens, and the record of a login that is kept until the next start."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dovetail.protocol.errors import LocalError

from . import scopes
from .client_authentication import Client
from .errors import AuthorizationFailed, Denied, Untrusted, plain
from .http import Document, Response

EARLY = 60.0
"""How long before its end a token is renewed, in seconds; for one with a short life, a tenth of that."""
MAX_SECONDS = 10 * 366 * 86400
_TOKEN = re.compile(r"[\x21-\x7e]+")


class Tokens(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a token endpoint gave."""

    access_token: str
    token_type: str = "Bearer"
    obtained_at: float = 0.0
    expires_at: float | None = None
    refresh_token: str | None = None
    scopes: tuple[str, ...] | None = None
    """What the token allows; None where the server did not say, and it is what was asked for."""
    id_token: str | None = None
    issued_token_type: str | None = None

    @property
    def authorization(self) -> str:
        """The value of the header that goes with each request."""
        return f"{self.token_type} {self.access_token}"

    def expired(self, now: float) -> bool:
        """Whether the token is of no use any more."""
        return self.expires_at is not None and now >= self.expires_at

    def needs_refresh(self, now: float) -> bool:
        """Whether it is time for another one."""
        if self.expires_at is None:
            return False
        return now >= self.expires_at - min(EARLY, max(0.0, self.expires_at - self.obtained_at) / 10)

    def after(self, earlier: Tokens) -> Tokens:
        """These, with what a refresh leaves as it was (RFC 6749, section 6)."""
        return msgspec.structs.replace(
            self,
            refresh_token=self.refresh_token or earlier.refresh_token,
            scopes=earlier.scopes if self.scopes is None else self.scopes,
            id_token=self.id_token or earlier.id_token,
        )

    def __repr__(self) -> str:
        return f"Tokens(token_type={self.token_type!r}, expires_at={self.expires_at!r}, scopes={self.scopes!r})"


class Account(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A login at one server: who we are, where tokens come from, and those that we have."""

    version: int = 1
    resource: str
    issuer: str
    client: Client
    tokens: Tokens
    requested: tuple[str, ...] = ()
    """All scopes that were ever asked for: a later login asks for them again."""
    dpop_key: str | None = None
    """The key that the tokens are bound to, in PEM."""

    def __repr__(self) -> str:
        return f"Account(resource={self.resource!r}, issuer={self.issuer!r}, client={self.client!r})"

    def renewed(self, tokens: Tokens) -> Account:
        """The same with tokens of a refresh."""
        return msgspec.structs.replace(self, tokens=tokens.after(self.tokens))

    def encode(self) -> bytes:
        """As bytes, with all secrets: to be encrypted by who stores them."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(content: bytes) -> Account:
        """From its bytes."""
        try:
            account = msgspec.json.decode(content, type=Account)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise LocalError("The stored login cannot be read: log in again") from None
        if account.version != 1 or (not account.client.portable and account.client.issuer != account.issuer):
            raise LocalError("The stored login cannot be used: log in again")
        return account


def read_tokens(response: Response, where: str, *, now: float, types: tuple[str, ...] = ("Bearer",)) -> Tokens:
    """The tokens in a response of a token endpoint (RFC 6749, section 5), of one of these types."""
    what = f"The answer of {plain(where)}"
    problem = error_of(response, what)
    if problem is not None:
        raise problem
    if response.status != 200:
        raise AuthorizationFailed(f"{plain(where)} answered {response.status} instead of a token")
    document = Document.read(response.body, what)
    access, refresh = document.needed("access_token", 65536), document.text("refresh_token", 65536)
    if not _TOKEN.fullmatch(access):
        raise AuthorizationFailed(f"{what} has a token with blanks, line breaks or special letters")
    named = document.needed("token_type")
    kind = next((each for each in types if each.lower() == named.lower()), None)
    if kind is None:
        raise Untrusted(f"{what} has a token of the type {plain(named)}, where {' or '.join(types)} was asked for")
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


def error_of(response: Response, what: str) -> Denied | None:
    """What an error of a token endpoint says; some come with status 200."""
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
