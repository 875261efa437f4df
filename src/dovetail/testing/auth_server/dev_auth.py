"""`DevAuth`: an authorization server for tests and development."""

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

from .authorize_request import Offer, UserAuthorization, parse_authorization, redirect_url
from .clients import CODE, CREDENTIALS, REFRESH, ClientDocuments, KnownClient
from .core import AuthServerCore
from .errors import RedirectedError, RequestError, read_fields, required_field
from .http_app import AuthServerApp
from .tokens import AccessRight

if TYPE_CHECKING:
    from typing import Self

    from dovetail.transports.http.contract import HttpOptions

TOKEN_SECONDS = 300


class DevAuth:
    """An authorization server for tests and development, in which every user can log in as any user.

    `async with auth.serving():` serves on a free port of this machine; `asgi()` is the application for a server of
    your own, with `issuer` as its URL. `users`, `scopes` and `resources` limit what is supported.
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
        self._core = AuthServerCore(offer, random=os.urandom, clock=clock, seconds=token_seconds)
        self._app = AuthServerApp(self._core, ClientDocuments(http))
        self._given_issuer = issuer
        if issuer is not None:
            self._set_issuer(issuer)

    @property
    def issuer(self) -> str:
        """The issuer URL."""
        if not self._core.issuer:
            raise LocalError("The issuer is not known yet: give it, or use `async with auth.serving()`")
        return self._core.issuer

    @property
    def token_seconds(self) -> int:
        """Lifetime of new access tokens."""
        return self._core.seconds

    @token_seconds.setter
    def token_seconds(self, seconds: int) -> None:
        self._core.seconds = seconds

    @property
    def refreshes(self) -> int:
        """Number of token refreshes."""
        return self._core.issued[REFRESH]

    @property
    def logins(self) -> int:
        """Number of codes exchanged for tokens."""
        return self._core.issued[CODE]

    def log_events(self, on_event: Callable[[str], None]) -> None:
        """Call a function with a sentence for every event."""
        self._core.on_event = on_event

    def asgi(self) -> AuthServerApp:
        """The ASGI application."""
        if not self._core.issuer:
            raise LocalError("An application needs the issuer, which is the URL that it will be at")
        return self._app

    @contextlib.asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncGenerator[Self]:
        """Serve on this machine during the block."""
        from .run import serving_on_loop

        async with serving_on_loop(self._app, port, self._bound):
            yield self

    def run(self, port: int, started: Callable[[], None]) -> None:
        """Serve on this machine until a signal arrives."""
        from .run import run_process

        run_process(self._app, port, self._bound, started)

    def add_client(
        self,
        client_id: str,
        *,
        secret: str | None = None,
        key: str | None = None,
        redirect_uris: Iterable[str] = (),
        name: str | None = None,
    ) -> None:
        """Add a client: with a secret, with a private key in PEM, or with redirect URIs.

        A client with a secret or a key may use the client credentials grant and introspect tokens.
        """
        uris = tuple(redirect_uris)
        grants = ((CODE, REFRESH) if uris else ()) + ((CREDENTIALS,) if secret or key else ())
        if not grants:
            raise LocalError("A client needs a secret, a key, or redirect URIs")
        method = "client_secret_basic" if secret else "private_key_jwt" if key else "none"
        public: PublicKey | None = None if key is None else SigningKey.from_pem(key).public
        self._core.registry.add(
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
        """Issue an access token without a login; negative seconds make an expired one."""
        right = AccessRight(subject=user, client_id=client_id, resource=resource, scopes=_checked(scopes))
        issuer, now = self._core.grants.issuer, self._core.clock()
        return issuer.access(
            self.issuer, issuer.new_id(), right, now, self.token_seconds if seconds is None else seconds
        )

    async def agree(self, url: str, user: str = "ada") -> str:
        """Open the login page and approve as a user; returns the redirect URL."""
        return await self._open_login_page(
            url, lambda authorization: self._core.approve(authorization, user, authorization.scopes)
        )

    async def deny(self, url: str) -> str:
        """Open the login page and deny; returns the redirect URL."""
        return await self._open_login_page(url, self._core.deny)

    def expire(self) -> None:
        """Expire all access tokens for introspection; servers that verify signatures see only the `exp` claim."""
        self._core.grants.issuer.expire_access()

    def revoke_all(self) -> None:
        """Revoke all logins."""
        self._core.grants.issuer.revoke_all()
        self._core.grants.codes.clear()

    async def _open_login_page(self, url: str, answer: Callable[[UserAuthorization], str]) -> str:
        page, _, query = url.partition("?")
        if page != f"{self.issuer.rstrip('/')}/authorize":
            raise LocalError(f"{url} is not the authorization endpoint of {self.issuer}")
        try:
            fields = read_fields(query)
            return answer(
                parse_authorization(
                    fields, await self._app.find_client(required_field(fields, "client_id")), self._core.offer
                )
            )
        except RedirectedError as problem:
            error = {"error": problem.error, "error_description": problem.description}
            return redirect_url(problem.redirect_uri, problem.state, self.issuer, **error)
        except RequestError as problem:
            raise LocalError(f"The authorization request is invalid: {problem.description}") from None

    def _bound(self, url: str) -> None:
        if self._given_issuer is None:
            self._set_issuer(url)

    def _set_issuer(self, issuer: str) -> None:
        try:
            check_issuer(issuer)
        except Untrusted as problem:
            raise LocalError(str(problem)) from None
        self._core.issuer = issuer


def _checked(several: Iterable[str]) -> tuple[str, ...]:
    return scopes.check_scopes(several)
