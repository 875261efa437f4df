"""What a client without credentials does when a server wants some: it uses a login of the user's, or asks for one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from dovetail.auth.errors import ClientNeeded, LoginNeeded
from dovetail.transports.http.contract import HttpOptions
from dovetail.userdata.folders import user_folder

from .interactive import login_mode

if TYPE_CHECKING:
    from .browser_login import OpenPage
    from .oauth import OAuth
    from .token_store import FileTokens

_NOTHING: Mapping[str, str] = {}


class AutoLogin:
    """Credentials for the server at the first URL that it is used with, from the user's own store.

    A login that is stored is sent with the first request; else nothing is done before a server wants it. Then the user
    logs in, where one is there.
    """

    def __init__(self, options: HttpOptions, account: str | None = None) -> None:
        self._options = options
        self._account = account
        self._store: FileTokens | None = None
        self._oauth: OAuth | None = None
        self._looked = False
        self._turn = asyncio.Lock()

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The token of the stored login, if there is one."""
        if self._oauth is None:
            if self._looked:
                return _NOTHING
            if not self._known(url):
                self._looked = True
                return _NOTHING
        return await (self._oauth or await self._choose(url)).headers(method, url)

    def accepted(self, url: str, headers: Mapping[str, str]) -> None:
        """The server is content."""
        if self._oauth is not None:
            self._oauth.accepted(url, headers)

    async def refused(self, url: str, sent: Mapping[str, str], status: int, headers: Mapping[str, str]) -> bool:
        """Use a login that was stored meanwhile, renew the one there is, or have the user log in."""
        if self._oauth is None:
            if status != 401 or not _wants_token(headers):
                return False
            if login_mode() == "never" and not self._known(url):
                raise _nobody(url)
        try:
            return await (self._oauth or await self._choose(url)).refused(url, sent, status, headers)
        except ClientNeeded as problem:
            raise LoginNeeded(
                f"{url} wants credentials, and no login there is possible without a client_id ({problem}): "
                f"give them with auth=, or a client_id with `dovetail login {url} --client-id …`"
            ) from problem

    def _known(self, url: str) -> bool:
        """Whether there is a login at this server; where there is none at all, one look at the disk tells."""
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
        async with self._turn:
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
        async def doorway() -> AsyncGenerator[tuple[str, OpenPage]]:
            if login_mode() == "never":
                raise _nobody(url, label)
            from .browser_login import loopback

            async with loopback() as opened:
                yield opened

        way = BrowserLogin(doorway, name="Dovetail")
        return OAuth(way, store=store, account=label, http=self._options)


def _wants_token(headers: Mapping[str, str]) -> bool:
    """Whether a token may be the answer: other credentials than tokens are the user's to give."""
    if not headers.get("www-authenticate"):
        return True
    from dovetail.auth.challenge import NO_CHALLENGE, read

    return read(headers) is not NO_CHALLENGE


def _nobody(url: str, account: str = "") -> LoginNeeded:
    words = f"dovetail login {url}" + (f" --account {account}" if account else "")
    return LoginNeeded(
        f"{url} wants a login, and nobody is there to log in: do so once with `{words}`, or give credentials with auth="
    )
