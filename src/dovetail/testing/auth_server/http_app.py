"""The authorization server over HTTP, as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from dovetail.transports.http.server.asgi import BodyReader, BodyTooLarge, BodyTooSlow, ClientGone, Receive, Scope, Send

from . import metadata, pages
from .authorize_request import parse_authorization, redirect_url
from .client_authentication import parse_credentials
from .clients import ClientDocuments, KnownClient
from .core import AuthServerCore
from .errors import RedirectedError, RequestError, read_fields, required_field

MAX_BODY = 64 * 1024
BODY_SECONDS = 10.0

_FORM = "application/x-www-form-urlencoded"
_FOR_PAGES = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "authorization, content-type, dpop, mcp-protocol-version",
}
"""CORS headers for clients that are web pages, without cookies."""


class AuthServerRequest(msgspec.Struct, frozen=True):
    """A request with its body."""

    query: str
    headers: dict[str, str]
    body: bytes

    def form(self) -> dict[str, str]:
        """The fields of the form in the body."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
            raise RequestError("invalid_request", f"The request is not a form ({_FORM})")
        return read_fields(self.body.decode("latin-1"))


class AuthServerResponse(msgspec.Struct, frozen=True):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


_Handler: TypeAlias = Callable[[AuthServerRequest], Awaitable[AuthServerResponse]]


class AuthServerApp:
    """The ASGI application: pages and endpoints."""

    def __init__(self, core: AuthServerCore, documents: ClientDocuments) -> None:
        self._core = core
        self._documents = documents
        self._reader = BodyReader(MAX_BODY, BODY_SECONDS)
        self._pages: dict[tuple[str, str], _Handler] = {
            ("GET", "/"): self._welcome,
            ("GET", "/authorize"): self._authorize,
            ("POST", "/login"): self._login,
            ("POST", "/consent"): self._consent,
        }
        self._endpoints: dict[tuple[str, str], _Handler] = {
            ("POST", "/token"): self._token,
            ("POST", "/register"): self._register,
            ("POST", "/revoke"): self._revoke,
            ("POST", "/introspect"): self._introspect,
            ("GET", "/jwks"): self._keys,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        task = asyncio.current_task()
        assert task is not None
        try:
            body = await self._reader.read(receive, task)
        except ClientGone:
            return
        except (BodyTooLarge, BodyTooSlow):
            answer = AuthServerResponse(413, {})
        else:
            request = AuthServerRequest(scope["query_string"].decode("latin-1"), headers, body)
            answer = await self._answer(scope["method"], scope["path"], request)
        response_headers = {"content-length": str(len(answer.body)), **answer.headers}
        raw = [(name.encode(), value.encode("latin-1")) for name, value in response_headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        await send({"type": "http.response.body", "body": answer.body})

    async def find_client(self, client_id: str) -> KnownClient | None:
        """Find a client by id, which may be the URL of a metadata document."""
        if client_id.startswith("https://"):
            return await self._documents.find(client_id, self._core.issuer, self._core.clock())
        return self._core.registry.find(client_id)

    async def _answer(self, method: str, path: str, request: AuthServerRequest) -> AuthServerResponse:
        core = self._core
        if not core.accepts_host(request.headers.get("host", "")):
            return AuthServerResponse(421, {"content-type": "text/plain"}, b"This server is not that host.\n")
        if path in metadata.metadata_paths(core.issuer):
            return _json(core.describe()) if method == "GET" else _not_found(method)
        name = path.removeprefix(core.path) or "/"
        page, endpoint = self._pages.get((method, name)), self._endpoints.get((method, name))
        try:
            if page is not None:
                return await page(request)
            if endpoint is not None:
                return await endpoint(request)
        except RedirectedError as problem:
            core.on_event(f"refused: {problem}")
            error = {"error": problem.error, "error_description": problem.description}
            return _redirect(redirect_url(problem.redirect_uri, problem.state, core.issuer, **error))
        except RequestError as problem:
            core.on_event(f"refused: {problem}")
            if page is not None:
                return AuthServerResponse(problem.status, pages.headers(), pages.error(problem.description))
            basic = {"www-authenticate": 'Basic realm="dev-auth"'} if problem.status == 401 else {}
            return _json({"error": problem.error, "error_description": problem.description}, problem.status, basic)
        return _not_found(method)

    async def _welcome(self, _: AuthServerRequest) -> AuthServerResponse:
        return AuthServerResponse(200, pages.headers(), pages.welcome(self._core.issuer))

    async def _authorize(self, request: AuthServerRequest) -> AuthServerResponse:
        """Authorization endpoint: show the login or consent page."""
        fields = read_fields(request.query)
        client = await self.find_client(required_field(fields, "client_id"))
        authorization = parse_authorization(fields, client, self._core.offer)
        browser = self._browser(request)
        known = browser if self._core.sessions.user(browser, self._core.clock()) else self._core.sessions.new_browser()
        ticket = self._core.sessions.begin(authorization, known, self._core.clock())
        return self._next_page(ticket, known)

    async def _login(self, request: AuthServerRequest) -> AuthServerResponse:
        """Log in a user."""
        fields, sessions, now = request.form(), self._core.sessions, self._core.clock()
        ticket, user = required_field(fields, "ticket"), required_field(fields, "user")
        pending = sessions.find(ticket, self._browser(request), now)
        if self._core.offer.users and user not in self._core.offer.users:
            raise RequestError("invalid_request", "This user is unknown")
        return self._next_page(ticket, sessions.log_in(ticket, pending, user, now))

    async def _consent(self, request: AuthServerRequest) -> AuthServerResponse:
        """Approve or deny a request."""
        fields, sessions, now = request.form(), self._core.sessions, self._core.clock()
        ticket, browser = required_field(fields, "ticket"), self._browser(request)
        authorization, user = sessions.find(ticket, browser, now).authorization, sessions.user(browser, now)
        decision = required_field(fields, "decision")
        if user is None or decision == "switch":
            sessions.log_out(browser, now)
            return self._next_page(ticket, browser)
        if decision not in ("allow", "deny"):
            raise RequestError("invalid_request", "The decision must be allow or deny")
        sessions.end(ticket, now)
        if decision == "deny":
            return _redirect(self._core.deny(authorization))
        ticked = {value for name, value in fields.items() if name.startswith("scope.")}
        return _redirect(
            self._core.approve(authorization, user, tuple(scope for scope in authorization.scopes if scope in ticked))
        )

    async def _token(self, request: AuthServerRequest) -> AuthServerResponse:
        fields, client = await self._authenticated(request)
        return _json(self._core.issue_tokens(fields, client, request.headers.get("dpop", "")))

    async def _register(self, request: AuthServerRequest) -> AuthServerResponse:
        return _json(self._core.register(request.body), 201)

    async def _revoke(self, request: AuthServerRequest) -> AuthServerResponse:
        fields, client = await self._authenticated(request)
        self._core.revoke(fields, client)
        return _json({})

    async def _introspect(self, request: AuthServerRequest) -> AuthServerResponse:
        fields, client = await self._authenticated(request)
        return _json(self._core.introspect(fields, client))

    async def _keys(self, _: AuthServerRequest) -> AuthServerResponse:
        return _json(metadata.key_set(self._core.key))

    async def _authenticated(self, request: AuthServerRequest) -> tuple[dict[str, str], KnownClient]:
        fields = request.form()
        shown = parse_credentials(request.headers.get("authorization", ""), fields)
        return fields, self._core.identify(shown, await self.find_client(shown.client_id))

    def _next_page(self, ticket: str, browser: str) -> AuthServerResponse:
        """The login or consent page, with the session cookie."""
        now = self._core.clock()
        authorization, user = (
            self._core.sessions.find(ticket, browser, now).authorization,
            self._core.sessions.user(browser, now),
        )
        secure = "; Secure" if self._core.issuer.startswith("https:") else ""
        cookie = f"{self._cookie}={browser}; Path={self._core.path or '/'}; HttpOnly; SameSite=Lax{secure}"
        if user is None:
            page, back = pages.login(f"{self._core.path}/login", ticket, authorization, self._core.offer.users), ""
        else:
            page, back = (
                pages.consent(f"{self._core.path}/consent", ticket, authorization, user),
                authorization.redirect_uri,
            )
        return AuthServerResponse(200, {**pages.headers(back), "set-cookie": cookie}, page)

    @property
    def _cookie(self) -> str:
        """Cookies do not distinguish ports, so the name does: two servers on one machine must not share sessions."""
        return f"dovetail-dev-auth-{urlsplit(self._core.issuer).port or 443}"

    def _browser(self, request: AuthServerRequest) -> str:
        try:
            cookie = SimpleCookie(request.headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if cookie is None else cookie.value


def _json(value: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> AuthServerResponse:
    all_headers = {"content-type": "application/json", "cache-control": "no-store", **_FOR_PAGES, **(headers or {})}
    return AuthServerResponse(status, all_headers, msgspec.json.encode(value))


def _redirect(url: str) -> AuthServerResponse:
    return AuthServerResponse(303, {"location": url, "cache-control": "no-store", "referrer-policy": "no-referrer"})


def _not_found(method: str) -> AuthServerResponse:
    return (
        AuthServerResponse(204, _FOR_PAGES)
        if method == "OPTIONS"
        else AuthServerResponse(404, {"content-type": "text/plain"}, b"Not found.\n")
    )


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
