"""The pages of `/accounts`: users prove who they are, and connect and disconnect their accounts at servers.

2026-07-28 elicitation, "Phishing": an account belongs to the user that the browser has proved to be, and never to the
one whose call has asked for it. A link that was made for another user says so.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from hmac import compare_digest
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlsplit

from dovetail.auth.client_authentication import OAuthClient
from dovetail.auth.errors import AuthorizationFailed, TokenRefused, printable
from dovetail.client.auth.token_store import account_name
from dovetail.gateway.errors import ServerUnavailable
from dovetail.protocol.errors import DovetailError
from dovetail.protocol.request_guard import MAX_FORM
from dovetail.runtime.rate_limit import TokenBuckets
from dovetail.server.http.asgi_app import Page
from dovetail.storage.contract import StoreError
from dovetail.transports.http.server.asgi import BodyReader, BodyTooLarge, BodyTooSlow

from . import views
from .account_store import AccountStore, account_label
from .account_upstream import AccountCallers, Accounts, configured_client, server_url, shown_host
from .browser_session import BrowserSession, BrowserSessions
from .logins import CLIENTS, Logins, PendingLogin, Purpose

if TYPE_CHECKING:
    from dovetail.gateway.access_control.inbound import CallerVerifier
    from dovetail.gateway.settings import AccountSettings
    from dovetail.server.http.request import HttpRequest

logger = logging.getLogger("dovetail")

PATH = "/accounts"

FORM_SECONDS = 10.0
"""Seconds in which a form must arrive."""

FORM_RATE = 0.5
FORM_BURST = 20.0
"""Forms and redirects a second, and at once, of one user, or from one address before it is known whose they are: each
can cost requests to authorization servers, and a form with a token could be used to guess tokens."""

MAX_FIELDS = 20
"""Fields of a query or form."""

_LONGEST_TAG = 64

_POLICY = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"

GetServers = Callable[[], Mapping[str, AccountCallers]]
"""The servers that are used with accounts of users, by key."""

Record = Callable[[str, str, str], Awaitable[None]]
"""Writes to the audit log what a user did: the user, the server, and what."""

MakePage = Callable[["HttpRequest", BrowserSession], Awaitable[str]]
"""Makes the page for a request of a session; empty for a redirect."""

CheckToken = Callable[[str], Awaitable[object]]
"""Raises `TokenRefused` for a token that was revoked."""


class _Problem(Exception):
    """Something that the user is told on a page."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(text)
        self.status, self.title, self.text = status, title, text


class AccountPages:
    """Serves the pages."""

    def __init__(
        self,
        gateway: str,
        settings: AccountSettings,
        accounts: Accounts,
        store: AccountStore,
        base: str,
        resource: str,
        verifier: CallerVerifier,
        servers: GetServers,
        record: Record,
        check_token: CheckToken,
    ) -> None:
        """`base` is the public URL of the gateway, and `resource` what tokens of its callers are for."""
        self._gateway = gateway
        self._settings = settings
        self._accounts = accounts
        self._store = store
        self._resource = resource
        self._verifier = verifier
        self._servers = servers
        self._record = record
        self._check_token = check_token
        self._origin = urlsplit(base).netloc
        self._prefix = urlsplit(base).path.rstrip("/") + PATH
        self._sessions = BrowserSessions(store, base)
        self._logins = Logins(store, base, f"Gateway {gateway}")
        self._bodies = BodyReader(MAX_FORM, FORM_SECONDS)
        self._rates = TokenBuckets(FORM_RATE, FORM_BURST)

    def pages(self) -> dict[str, Page]:
        """The pages by path; none needs a token, which browsers do not have."""
        pages = {PATH: Page(self._serve, ("GET", "POST"), needs_token=False)}
        for purpose, paths in CLIENTS.items():
            callback, document = self._callback, self._client_document
            pages[paths.callback] = Page(functools.partial(callback, purpose), ("GET",), needs_token=False)
            pages[paths.document] = Page(functools.partial(document, purpose), ("GET",), needs_token=False)
        return pages

    async def _serve(self, request: HttpRequest) -> None:
        await self._answer(request, self._post if request.method == "POST" else self._get)

    async def _callback(self, purpose: Purpose, request: HttpRequest) -> None:
        await self._answer(request, functools.partial(self._finish, purpose))

    async def _client_document(self, purpose: Purpose, request: HttpRequest) -> None:
        document = self._logins.describe_client(purpose)
        if document is None:
            await request.response.text(404, "There is a client metadata document only for an https URL\n")
        else:
            await request.response.json(200, document)

    async def _answer(self, request: HttpRequest, make_page: MakePage) -> None:
        """Answer with the page that is made for the session of a request, or with what went wrong."""
        try:
            session = await self._sessions.read(request.headers.get(b"cookie", b""), time.time())
            status, page = 200, await make_page(request, session)
        except _Problem as problem:
            status, page = problem.status, self._message(problem.title, problem.text)
        except (DovetailError, StoreError) as problem:
            if isinstance(problem, StoreError) or isinstance(problem.__cause__, StoreError):
                logger.error("A page of accounts failed: %s", problem)
                request.response.add_header(b"retry-after", b"1")
                text = "The gateway cannot read or change accounts at the moment."
                status, page = 503, self._message("Try again later", text)
            else:
                logger.warning("A page of accounts failed: %s", problem)
                status, page = 502, self._message("That did not work", printable(str(problem)))
        response = request.response
        response.add_header(b"cache-control", b"no-store")
        response.add_header(b"content-security-policy", _POLICY)
        response.add_header(b"referrer-policy", b"same-origin")
        response.add_header(b"x-content-type-options", b"nosniff")
        response.add_header(b"x-frame-options", b"DENY")
        if not page:
            await response.empty(303)
        else:
            await response.html(status, page)

    def _message(self, title: str, text: str) -> str:
        return views.message_page(self._gateway, title, text, self._prefix)

    def _go(self, request: HttpRequest, url: str) -> str:
        """Send the browser to another page; the empty page stands for that."""
        request.response.add_header(b"location", url.encode("latin-1"))
        return ""

    def _set_cookie(self, request: HttpRequest, session: BrowserSession) -> None:
        request.response.add_header(b"set-cookie", self._sessions.write(session).encode())

    async def _get(self, request: HttpRequest, session: BrowserSession) -> str:
        fields = _fields(request.query)
        server, tag = fields.get("server", ""), fields.get("for", "")
        self._set_cookie(request, session)
        if session.principal is None:
            return self._login_page(session, server, tag)
        if not server:
            rows = [await self._row(key, one, session.principal) for key, one in self._servers().items()]
            return views.accounts_page(self._gateway, session.form_token, session.principal, rows)
        row = await self._row(server, self._server(server), session.principal)
        if row.state == "not available":
            raise _Problem(503, "The server is not available", f"The gateway does not know the URL of {server} now.")
        if tag and not self._store.is_tag(tag, account_label(server, session.principal)):
            text = (
                f"You are logged in as {session.principal}, and someone else's application has asked for this account."
            )
            raise _Problem(403, "This link was made for another user", text)
        return views.connect_page(self._gateway, session.form_token, session.principal, row)

    def _login_page(self, session: BrowserSession, server: str, tag: str, problem: str | None = None) -> str:
        known = server if server in self._servers() else ""
        return views.login_page(self._gateway, session.form_token, known, tag, self._verifier.issuer, problem)

    async def _row(self, key: str, server: AccountCallers, principal: str) -> views.AccountRow:
        label = account_label(key, principal)
        try:
            url = await self._url(key, server)
        except ServerUnavailable:
            return views.AccountRow(key, "", "not available")
        state: views.AccountState = "not connected"
        if await self._store.load(account_name(url, label)) is not None:
            state = "connected" if await self._store.required_scopes(label) is None else "log in again"
        return views.AccountRow(key, shown_host(url), state)

    async def _url(self, key: str, server: AccountCallers) -> str:
        return await server_url(key, lambda: server.make_target(None))

    def _server(self, key: str) -> AccountCallers:
        server = self._servers().get(key)
        if server is None:
            raise _Problem(404, "No such server", "The gateway uses no server of this name with accounts of users.")
        return server

    async def _post(self, request: HttpRequest, session: BrowserSession) -> str:
        self._check_rate(request, session)
        form = await self._form(request)
        if not self._is_same_site(request) or not compare_digest(
            form.get("form_token", "").encode(errors="replace"), session.form_token.encode()
        ):
            raise _Problem(
                403, "Please try again", "This form was not sent from a page of this gateway, or is too old."
            )
        action, server = form.get("action", ""), form.get("server", "")
        if action == "login":
            return await self._log_in(request, session, form)
        if action == "logout":
            # First: if the store fails, the browser still has the cookie with which the user tries again.
            await self._sessions.end(session, time.time())
            self._set_cookie(request, self._sessions.new(time.time()))
            return self._go(request, self._prefix)
        if session.principal is None:
            return self._go(request, self._prefix + (f"?server={quote(server, safe='')}" if server else ""))
        if action == "connect":
            return self._go(request, await self._connect(session, session.principal, server))
        if action == "disconnect":
            await self._disconnect(session.principal, server)
            return self._go(request, self._prefix)
        raise _Problem(400, "Please try again", "The form has no action that is known here.")

    async def _log_in(self, request: HttpRequest, session: BrowserSession, form: Mapping[str, str]) -> str:
        """Prove who the user is: by a login at the issuer of tokens, or by a token."""
        verifier, settings = self._verifier, self._settings
        server, tag = form.get("server", ""), form.get("tag", "")
        if server not in self._servers() or len(tag) > _LONGEST_TAG:
            server = tag = ""
        if verifier.issuer is None:
            try:
                principal = await self._name_of(form.get("token", "").strip(), bound=False)
            except TokenRefused as problem:
                logger.info("A token was refused: %s", problem)
                return self._login_page(session, server, tag, "This token is not accepted.")
            return await self._logged_in(request, session, principal, server, tag)
        configured = None
        if settings.client_id is not None:
            configured = OAuthClient(id=settings.client_id, secret=settings.client_secret, issuer=verifier.issuer)
        page = await self._logins.begin_at_gateway(
            session.id,
            verifier.issuer,
            self._resource,
            verifier.scopes,
            configured=configured,
            dpop=verifier.dpop,
            server=server,
            tag=tag,
        )
        return self._go(request, page)

    async def _name_of(self, token: str, *, bound: bool) -> str:
        """The user of a token that the endpoint would accept too."""
        await self._check_token(token)
        return await self._verifier.name_of(token, bound=bound)

    async def _logged_in(
        self, request: HttpRequest, session: BrowserSession, principal: str, server: str, tag: str
    ) -> str:
        """Begin a session of the user, in place of the one before."""
        await self._sessions.end(session, time.time())
        self._set_cookie(request, self._sessions.new(time.time(), principal))
        there = f"?server={quote(server, safe='')}&for={quote(tag, safe='')}" if server else ""
        return self._go(request, self._prefix + there)

    async def _connect(self, session: BrowserSession, principal: str, key: str) -> str:
        server = self._server(key)
        label = account_label(key, principal)
        wanted = (*server.credentials.scopes, *(await self._store.required_scopes(label) or ()))
        return await self._logins.begin_at_server(
            session.id,
            await self._url(key, server),
            tuple(dict.fromkeys(wanted)),
            configured=await configured_client(server.credentials, server.fill),
            server=key,
            principal=principal,
        )

    async def _disconnect(self, principal: str, key: str) -> None:
        server = self._server(key)
        label, url = account_label(key, principal), await self._url(key, server)
        try:
            await self._accounts.auth(label, server.credentials).logout(url)
        except AuthorizationFailed as problem:
            if await self._store.load(account_name(url, label)) is not None:
                raise
            # It is removed here in any case; at the authorization server it ends when it expires.
            logger.warning("A token at %s was not revoked: %s", key, problem)
        await self._record(principal, key, "disconnected")
        await self._store.disconnected(label)

    async def _finish(self, purpose: Purpose, request: HttpRequest, session: BrowserSession) -> str:
        """Take the redirect of a login."""
        self._check_rate(request, session)
        query = request.query.decode("latin-1")
        fields = _fields(request.query)
        login = await self._logins.take(session.id, fields.get("state", ""), purpose, fields.get("issuer"))
        if login is None:
            text = "It was begun in another browser, was answered already, or took too long. You can begin again."
            raise _Problem(400, "This login cannot be continued", text)
        account = await self._logins.finish(login, query)
        if login.purpose == "gateway":
            try:
                principal = await self._name_of(account.tokens.access_token, bound=login.dpop_key is not None)
            except TokenRefused as problem:
                logger.info("A token was refused: %s", problem)
                text = "Its token for you is not accepted here. Perhaps you may not use this gateway."
                raise _Problem(403, "You are not logged in", text) from problem
            return await self._logged_in(request, session, principal, login.server, login.tag)
        return await self._connected(session, login, account.encode())

    async def _connected(self, session: BrowserSession, login: PendingLogin, content: bytes) -> str:
        if session.principal is None or session.principal != login.principal:
            text = "Another user has logged in to the gateway in this browser meanwhile. Nothing was connected."
            raise _Problem(403, "This login cannot be continued", text)
        label = account_label(login.server, login.principal)
        await self._record(login.principal, login.server, "connected")
        await self._store.connected(account_name(login.home, label), label, content)
        text = f"The gateway now uses {login.server} with your account. You can close this page and go on."
        return self._message("Your account is connected", text)

    def _check_rate(self, request: HttpRequest, session: BrowserSession) -> None:
        key = request.client_key if session.principal is None else ("user", session.principal)
        wait = self._rates.take(key, time.monotonic())
        if wait > 0:
            request.response.add_header(b"retry-after", b"%d" % (wait + 1))
            raise _Problem(429, "Too many attempts", f"Try again in {wait + 1:.0f} seconds.")

    def _is_same_site(self, request: HttpRequest) -> bool:
        """True if a form was sent from a page of this gateway, by its Origin, which browsers send with each form."""
        origin = urlsplit(request.headers.get(b"origin", b"").decode("latin-1")).netloc
        return origin in (self._origin, request.headers.get(b"host", b"").decode("latin-1"))

    async def _form(self, request: HttpRequest) -> dict[str, str]:
        task = asyncio.current_task()
        assert task is not None
        try:
            return _fields(await self._bodies.read(request.receive, task))
        except BodyTooLarge:
            raise _Problem(413, "Too large", "The form is too large.") from None
        except BodyTooSlow:
            raise _Problem(408, "Too slow", "The form did not arrive in time.") from None


def _fields(encoded: bytes) -> dict[str, str]:
    """The fields of a query or form; none if there are too many."""
    try:
        return dict(parse_qsl(encoded.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        return {}
