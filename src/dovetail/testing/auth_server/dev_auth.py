"""The authorization server for tests: what a test can say to it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING

from dovetail.auth import scopes
from dovetail.auth.errors import Untrusted
from dovetail.auth.jwk import PublicKey, SigningKey
from dovetail.auth.metadata import check_issuer
from dovetail.protocol.errors import LocalError

from .authorize_request import Asked, Offer, back_to, read_asked
from .client_documents import Documents
from .clients import CODE, CREDENTIALS, REFRESH, KnownClient
from .core import Desk
from .errors import Problem, SentBack, needed, read_fields
from .http_app import Site
from .tokens import Right

if TYPE_CHECKING:
    from typing import Self

    from dovetail.transports.http.contract import HttpOptions

TOKEN_SECONDS = 300


class DevAuth:
    """An authorization server for tests and development, in which anybody can log in as anybody.

    `async with auth.serving():` has it on a free port of this machine; `asgi()` is for a server of your own, and then
    `issuer` is the URL that it is at. `users`, `scopes` and `resources` are the only ones there are, if they are given.
    """

    def __init__(
        self,
        issuer: str | None = None,
        *,
        token_seconds: int = TOKEN_SECONDS,
        users: Iterable[str] = (),
        scopes: Iterable[str] | None = None,
        resources: Iterable[str] = (),
        clock: Callable[[], float] = time.time,
        http: HttpOptions | None = None,
    ) -> None:
        offer = Offer(
            scopes=None if scopes is None else _checked(scopes), resources=tuple(resources), users=tuple(users)
        )
        self._desk = Desk(offer, random=os.urandom, clock=clock, seconds=token_seconds)
        self._site = Site(self._desk, Documents(http))
        self._given = issuer
        if issuer is not None:
            self._settle(issuer)

    @property
    def issuer(self) -> str:
        """The URL that it is known by."""
        if not self._desk.issuer:
            raise LocalError("The issuer is not known yet: give it, or use `async with auth.serving()`")
        return self._desk.issuer

    @property
    def token_seconds(self) -> int:
        """How long access tokens live from now on."""
        return self._desk.seconds

    @token_seconds.setter
    def token_seconds(self, seconds: int) -> None:
        self._desk.seconds = seconds

    @property
    def refreshes(self) -> int:
        """How often a token was renewed."""
        return self._desk.given[REFRESH]

    @property
    def logins(self) -> int:
        """How often a code was exchanged for a token."""
        return self._desk.given[CODE]

    def listen(self, tell: Callable[[str], None]) -> None:
        """Have everything that happens told, in a sentence each."""
        self._desk.tell = tell

    def asgi(self) -> Site:
        """The ASGI application."""
        if not self._desk.issuer:
            raise LocalError("An application needs the issuer, which is the URL that it will be at")
        return self._site

    @contextlib.asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncGenerator[Self]:
        """Serve on this machine meanwhile."""
        from .run import on_this_loop

        async with on_this_loop(self._site, port, self._bound):
            yield self

    def run(self, port: int, started: Callable[[], None]) -> None:
        """Serve on this machine until a signal says to end."""
        from .run import run_process

        run_process(self._site, port, self._bound, started)

    def add_client(
        self,
        client_id: str,
        *,
        secret: str | None = None,
        key: str | None = None,
        redirect_uris: Iterable[str] = (),
        name: str | None = None,
    ) -> None:
        """Know a client that does not register: with a secret, with a private key in PEM, or with redirect URIs.

        One with a secret or a key gets tokens for itself, and may ask about tokens.
        """
        uris = tuple(redirect_uris)
        grants = ((CODE, REFRESH) if uris else ()) + ((CREDENTIALS,) if secret or key else ())
        if not grants:
            raise LocalError("A client needs a secret or a key, or redirect URIs for its users")
        method = "client_secret_basic" if secret else "private_key_jwt" if key else "none"
        public: PublicKey | None = None if key is None else SigningKey.from_pem(key).public
        self._desk.registry.add(
            KnownClient(
                id=client_id,
                name=name or client_id,
                redirect_uris=uris,
                grants=grants,
                method=method,
                secret=secret,
                key=public,
            )
        )

    def token(
        self,
        user: str,
        resource: str,
        *,
        scopes: Iterable[str] = (),
        client_id: str = "test",
        seconds: int | None = None,
    ) -> str:
        """An access token without a login; with negative seconds it has expired already."""
        right = Right(subject=user, client_id=client_id, resource=resource, scopes=_checked(scopes))
        mint, now = self._desk.grants.mint, self._desk.clock()
        return mint.access(self.issuer, mint.new_name(), right, now, self.token_seconds if seconds is None else seconds)

    async def agree(self, url: str, user: str = "ada") -> str:
        """Visit the page of a login as a user who agrees at once; where the browser is sent back to."""
        return await self._visit(url, lambda asked: self._desk.allow(asked, user, asked.scopes))

    async def deny(self, url: str) -> str:
        """The same as one who says no."""
        return await self._visit(url, self._desk.deny)

    def expire(self) -> None:
        """End all access tokens, for who asks about them; a server that checks signatures has only their time."""
        self._desk.grants.mint.expire_access()

    def revoke_all(self) -> None:
        """End all logins."""
        self._desk.grants.mint.revoke_all()
        self._desk.grants.codes.clear()

    async def _visit(self, url: str, answer: Callable[[Asked], str]) -> str:
        page, _, query = url.partition("?")
        if page != f"{self.issuer.rstrip('/')}/authorize":
            raise LocalError(f"This is not a page of {self.issuer}: {url}")
        try:
            fields = read_fields(query)
            return answer(
                read_asked(fields, await self._site.find_client(needed(fields, "client_id")), self._desk.offer)
            )
        except SentBack as problem:
            told = {"error": problem.error, "error_description": problem.description}
            return back_to(problem.redirect_uri, problem.state, self.issuer, **told)
        except Problem as problem:
            raise LocalError(f"The login cannot begin: {problem.description}") from None

    def _bound(self, url: str) -> None:
        if self._given is None:
            self._settle(url)

    def _settle(self, issuer: str) -> None:
        try:
            check_issuer(issuer)
        except Untrusted as problem:
            raise LocalError(str(problem)) from None
        self._desk.issuer = issuer


def _checked(several: Iterable[str]) -> tuple[str, ...]:
    return scopes.check_scopes(several)
