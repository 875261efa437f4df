"""The accounts of users of a gateway that is served over HTTP: from its settings to its pages."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from dovetail.auth.metadata import canonical_url
from dovetail.auth.registration import check_redirect
from dovetail.gateway.access_control.inbound import ViewEndpoint
from dovetail.gateway.settings import AccountSettings
from dovetail.protocol.errors import LocalError
from dovetail.protocol.seal import KeyRing

from .account_store import AccountStore

if TYPE_CHECKING:
    from dovetail.gateway.state import GatewayState
    from dovetail.server.http.asgi_app import Page
    from dovetail.server.http.options import Settings
    from dovetail.storage.contract import Store

_NEEDS = "Servers with credentials of the type user-account need"


def account_pages(state: GatewayState, settings: Settings, get_store: Callable[[], Store]) -> dict[str, Page]:
    """The pages on which users connect accounts, by path; none if no server is used with accounts of users.

    Raises LocalError for what is missing in the settings.
    """
    given, verifier = state.settings.accounts, state.verifier
    if verifier is None:
        # Work that goes on after its request, as tasks do, does not tell an unknown client from a local one.
        state.accounts.serves_local = False
    if given is None:
        if not state.account_servers():
            return {}
        given = AccountSettings()
    if verifier is None:
        raise LocalError(f"{_NEEDS} authentication of callers: pass auth=, so that it is known whose account to use")
    from .pages import AccountPages

    # Users prove who they are with tokens for the endpoint of all servers, not with one for a view.
    verifier = verifier.for_view(ViewEndpoint(settings.path, settings.resource))
    base = _base(given, settings, state.address)
    store = AccountStore(_key_ring(given, settings), get_store, verifier.issuer)
    state.accounts.use(store, base)
    resource = settings.resource or next(iter(verifier.audience), base + settings.path)
    return AccountPages(
        state.settings.name,
        given,
        state.accounts,
        store,
        base,
        resource,
        verifier,
        state.account_servers,
        state.record_account,
        state.view("").revoked_tokens.check,
    ).pages()


def _base(given: AccountSettings, settings: Settings, address: str | None) -> str:
    """The public URL of the gateway: as configured, or from that of its endpoint, or its address on this machine."""
    url = given.url
    if url is None and settings.resource is not None:
        url = canonical_url(settings.resource).removesuffix(settings.path.rstrip("/"))
    url = url or address
    if url is None:
        raise LocalError(f"{_NEEDS} the public URL of the gateway, to which users come back: `url` of `accounts`")
    check_redirect(url)
    return url.rstrip("/")


def _key_ring(given: AccountSettings, settings: Settings) -> KeyRing:
    if given.keys:
        return KeyRing([key.encode() for key in given.keys])
    if settings.store is not None:
        raise LocalError(
            f"{_NEEDS} `keys` of `accounts`, which encrypt the tokens in the store: make one with "
            f"`python -c 'import secrets; print(secrets.token_urlsafe(32))'` and give it in an environment variable"
        )
    return KeyRing([os.urandom(32)])
