"""Stored logins: listing them without their tokens, and choosing the default account at a server."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from dovetail.auth.errors import AuthorizationFailed, TokenRefused, printable
from dovetail.auth.jwt import parse_unverified
from dovetail.auth.tokens import Account
from dovetail.protocol.errors import LocalError

from .token_store import FileTokens, account_name

logger = logging.getLogger("dovetail")

_WHO = ("email", "preferred_username", "name", "sub")
"""The claims of an ID token that name the user, the most readable first."""


class StoredLogin(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The description of a stored account, without its tokens."""

    server: str
    account: str
    """The name that the user gave the account; empty for the one without a name."""
    default: bool
    """True if this account is used where none is named."""
    user: str | None
    """The user, as the authorization server names them, if it does."""
    issuer: str
    client_id: str
    scopes: tuple[str, ...]
    expires_at: float | None
    """The time at which the token expires, in seconds since 1970."""
    renewable: bool
    """True if there is a refresh token, which renews it without the user."""


async def list_logins(store: FileTokens, url: str | None = None) -> list[StoredLogin]:
    """All logins in a store, or those at one server."""
    wanted = None if url is None else account_name(url)
    labels: dict[str, list[str]] = {}
    for name in await store.names():
        server, _, label = name.partition(" ")
        if wanted is None or server == wanted:
            labels.setdefault(server, []).append(label)
    logins: list[StoredLogin] = []
    for server, names in labels.items():
        for label in names:
            content = await store.load(f"{server} {label}".strip())
            try:
                account = None if content is None else Account.decode(content)
            except LocalError as problem:
                logger.warning("%s at %s: %s", label or "The account", server, problem)
                continue
            if account is not None:
                logins.append(_described(server, label, account, default=label == _preferred(names)))
    return logins


async def account_labels(store: FileTokens, url: str) -> list[str]:
    """The names of the accounts at a server; empty for the one without a name."""
    kept = [name.partition(" ") for name in await store.names()]
    return [label for server, _, label in kept if server == account_name(url)]


async def default_account(store: FileTokens, url: str) -> str:
    """The account to use where none is named: the one without a name, or the only one."""
    labels = await account_labels(store, url)
    preferred = _preferred(labels)
    if preferred is None:
        raise AuthorizationFailed(
            f"There are several accounts at {url}, {', '.join(labels)}, and none is the default: name one, "
            "with --account or auth=OAuth(account=…)"
        )
    return preferred


def _preferred(labels: list[str]) -> str | None:
    if not labels or "" in labels:
        return ""
    return labels[0] if len(labels) == 1 else None


def _described(server: str, label: str, account: Account, *, default: bool) -> StoredLogin:
    tokens = account.tokens
    return StoredLogin(
        server=server,
        account=label,
        default=default,
        user=_user(tokens.id_token),
        issuer=account.issuer,
        client_id=account.client.id,
        scopes=account.requested if tokens.scopes is None else tokens.scopes,
        expires_at=tokens.expires_at,
        renewable=tokens.refresh_token is not None,
    )


def _user(id_token: str | None) -> str | None:
    """The user in an ID token; displayed only, so its signature is not verified."""
    if id_token is None:
        return None
    try:
        claims: dict[str, Any] = parse_unverified(id_token).claims
    except TokenRefused:
        return None
    named = (claims.get(name) for name in _WHO)
    return next((printable(name) for name in named if isinstance(name, str) and name), None)
