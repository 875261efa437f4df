"""Automatic login: the credentials of a client that was given none, from the user's store or from a new login."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from dovetail.auth.errors import ClientNeeded, LoginNeeded, LoginNotOffered
from dovetail.protocol.errors import DovetailError
from dovetail.transports.http.contract import HttpOptions
from dovetail.userdata.folders import user_folder

from .interactive import login_mode

if TYPE_CHECKING:
    from .browser_login import OpenPage
    from .oauth import OAuth
    from .token_store import FileTokens

_NOTHING: Mapping[str, str] = {}


class AutoLogin:
    """Credentials for the server at the first URL that they are used with, from the user's own store.

    A login that is stored is sent with the first request; else nothing is done before a server wants it. Then the user
    logs in, where one is there.
    """

    def __init__(self, options: HttpOptions, account: str | None = None) -> None:
        self._options = options
        self._account = account
        self._store: FileTokens | None = None
        self._oauth: OAuth | None = None
        self._looked_up = False
        self._lock = asyncio.Lock()

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The headers with the token of the stored login, if there is one."""
        if self._oauth is None:
            if self._looked_up:
                return _NOTHING
            if not self._has_login(url):
                self._looked_up = True
                return _NOTHING
        return await (self._oauth or await self._choose(url)).headers(method, url)

    def accepted(self, url: str, headers: Mapping[str, str]) -> None:
        """The server has accepted a request."""
        if self._oauth is not None:
            self._oauth.accepted(url, headers)

    async def refused(self, url: str, sent: Mapping[str, str], status: int, headers: Mapping[str, str]) -> bool:
        """Use a login that was stored meanwhile, renew the current one, or ask the user to log in."""
        if self._oauth is None:
            if status != 401 or not _wants_token(headers):
                return False
            if login_mode() == "never" and not self._has_login(url):
                if not _names_metadata(headers) and not await self._offers_login(url):
                    return False
                raise _login_needed(url)
        try:
            return await (self._oauth or await self._choose(url)).refused(url, sent, status, headers)
        except LoginNotOffered:
            return False  # its response says what it wants, and a token can be given
        except ClientNeeded as problem:
            raise LoginNeeded(
                f"{url} wants credentials, and no login there is possible without a client_id ({problem})",
                f"give a token with auth=, on the command line with --token-env, "
                f"or a client_id with `dovetail login {url} --client-id …`",
            ) from problem

    async def _offers_login(self, url: str) -> bool:
        """True if the server has an authorization server, or may have one as far as can be seen."""
        from dovetail.auth import discovery
        from dovetail.runtime.oauth_http import OAuthHttp

        try:
            found = await OAuthHttp(url, self._options).run(discovery.discover(url))
        except DovetailError:
            return True
        return not found.server.without_metadata

    def _has_login(self, url: str) -> bool:
        """True if there is a stored login at this server; without a store this costs one look at the disk."""
        if self._store is None and not (user_folder() / "accounts").exists():
            return False
        from .token_store import account_name

        return self._tokens().mentions(account_name(url))

    def _tokens(self) -> FileTokens:
        if self._store is None:
            from .token_store import default_tokens

            self._store = default_tokens()
        return self._store

    async def _choose(self, url: str) -> OAuth:
        async with self._lock:
            if self._oauth is None:
                self._oauth = await self._login_at(url)
            return self._oauth

    async def _login_at(self, url: str) -> OAuth:
        from .accounts import default_account
        from .grants import BrowserLogin
        from .oauth import OAuth

        store = self._tokens()
        label = await default_account(store, url) if self._account is None else self._account

        @contextlib.asynccontextmanager
        async def redirect() -> AsyncGenerator[tuple[str, OpenPage]]:
            if login_mode() == "never":
                raise _login_needed(url, label)
            from .browser_login import loopback

            async with loopback() as opened:
                yield opened

        grant = BrowserLogin(redirect, name="Dovetail")
        return OAuth(grant, store=store, account=label, http=self._options)


def _wants_token(headers: Mapping[str, str]) -> bool:
    """True if the challenge is one for a token; other credentials have to be given by the caller."""
    if not headers.get("www-authenticate"):
        return True
    from dovetail.auth.challenge import NO_CHALLENGE, read

    return read(headers) is not NO_CHALLENGE


def _names_metadata(headers: Mapping[str, str]) -> bool:
    """True if the challenge says where the metadata of the server is, so that there is an authorization server."""
    from dovetail.auth.challenge import read

    return read(headers).resource_metadata is not None


def _login_needed(url: str, account: str = "") -> LoginNeeded:
    words = f"dovetail login {url}" + (f" --account {account}" if account else "")
    return LoginNeeded(
        f"{url} wants a login, and nobody is there to log in",
        f"do so once with `{words}`, or give a token with auth=, on the command line with --token-env",
    )
