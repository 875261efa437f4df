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
from .authorize_request import back_to, read_asked
from .client_authentication import read_shown
from .client_documents import Documents
from .clients import KnownClient
from .core import Desk
from .errors import Problem, SentBack, needed, read_fields

MAX_BODY = 64 * 1024
BODY_SECONDS = 10.0

_FORM = "application/x-www-form-urlencoded"
_FOR_PAGES = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "authorization, content-type, dpop, mcp-protocol-version",
}
"""Clients that are pages themselves may ask, without cookies."""


class Asking(msgspec.Struct, frozen=True):
    """A request, read whole."""

    query: str
    headers: dict[str, str]
    body: bytes

    def form(self) -> dict[str, str]:
        """The fields of the form that it brings."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
            raise Problem("invalid_request", f"The request is no form ({_FORM})")
        return read_fields(self.body.decode("latin-1"))


class Answer(msgspec.Struct, frozen=True):
    """The answer to a request."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


_Handler: TypeAlias = Callable[[Asking], Awaitable[Answer]]


class Site:
    """All pages and endpoints."""

    def __init__(self, desk: Desk, documents: Documents) -> None:
        self._desk = desk
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
        """Answer a request."""
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
            answer = Answer(413, {})
        else:
            asking = Asking(scope["query_string"].decode("latin-1"), headers, body)
            answer = await self._answer(scope["method"], scope["path"], asking)
        told = {"content-length": str(len(answer.body)), **answer.headers}
        raw = [(name.encode(), value.encode("latin-1")) for name, value in told.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        await send({"type": "http.response.body", "body": answer.body})

    async def find_client(self, client_id: str) -> KnownClient | None:
        """The client with an identifier, which may be the URL of a document."""
        if client_id.startswith("https://"):
            return await self._documents.find(client_id, self._desk.issuer, self._desk.clock())
        return self._desk.registry.find(client_id)

    async def _answer(self, method: str, path: str, asking: Asking) -> Answer:
        desk = self._desk
        if not desk.answers_to(asking.headers.get("host", "")):
            return Answer(421, {"content-type": "text/plain"}, b"This server is not that host.\n")
        if path in metadata.places(desk.issuer):
            return _json(desk.describe()) if method == "GET" else _elsewhere(method)
        name = path.removeprefix(desk.path) or "/"
        page, endpoint = self._pages.get((method, name)), self._endpoints.get((method, name))
        try:
            if page is not None:
                return await page(asking)
            if endpoint is not None:
                return await endpoint(asking)
        except SentBack as problem:
            desk.tell(f"refused: {problem}")
            told = {"error": problem.error, "error_description": problem.description}
            return _go(back_to(problem.redirect_uri, problem.state, desk.issuer, **told))
        except Problem as problem:
            desk.tell(f"refused: {problem}")
            if page is not None:
                return Answer(problem.status, pages.headers(), pages.trouble(problem.description))
            basic = {"www-authenticate": 'Basic realm="dev-auth"'} if problem.status == 401 else {}
            return _json({"error": problem.error, "error_description": problem.description}, problem.status, basic)
        return _elsewhere(method)

    async def _welcome(self, _: Asking) -> Answer:
        return Answer(200, pages.headers(), pages.welcome(self._desk.issuer))

    async def _authorize(self, asking: Asking) -> Answer:
        """Take a client's request, and show who is to agree to it."""
        fields = read_fields(asking.query)
        client = await self.find_client(needed(fields, "client_id"))
        asked = read_asked(fields, client, self._desk.offer)
        browser = self._browser(asking)
        known = browser if self._desk.visits.user(browser, self._desk.clock()) else self._desk.visits.new_browser()
        ticket = self._desk.visits.begin(asked, known, self._desk.clock())
        return self._next_page(ticket, known)

    async def _login(self, asking: Asking) -> Answer:
        """A user says who they are."""
        fields, visits, now = asking.form(), self._desk.visits, self._desk.clock()
        ticket, user = needed(fields, "ticket"), needed(fields, "user")
        visit = visits.find(ticket, self._browser(asking), now)
        if self._desk.offer.users and user not in self._desk.offer.users:
            raise Problem("invalid_request", "This user is not known here")
        return self._next_page(ticket, visits.log_in(ticket, visit, user, now))

    async def _consent(self, asking: Asking) -> Answer:
        """A user says what may be."""
        fields, visits, now = asking.form(), self._desk.visits, self._desk.clock()
        ticket, browser = needed(fields, "ticket"), self._browser(asking)
        asked, user = visits.find(ticket, browser, now).asked, visits.user(browser, now)
        decision = needed(fields, "decision")
        if user is None or decision == "switch":
            visits.log_out(browser, now)
            return self._next_page(ticket, browser)
        if decision not in ("allow", "deny"):
            raise Problem("invalid_request", "The answer is to allow or to deny")
        visits.end(ticket, now)
        if decision == "deny":
            return _go(self._desk.deny(asked))
        ticked = {value for name, value in fields.items() if name.startswith("scope.")}
        return _go(self._desk.allow(asked, user, tuple(scope for scope in asked.scopes if scope in ticked)))

    async def _token(self, asking: Asking) -> Answer:
        fields, client = await self._identified(asking)
        return _json(self._desk.give(fields, client, asking.headers.get("dpop", "")))

    async def _register(self, asking: Asking) -> Answer:
        return _json(self._desk.register(asking.body), 201)

    async def _revoke(self, asking: Asking) -> Answer:
        fields, client = await self._identified(asking)
        self._desk.revoke(fields, client)
        return _json({})

    async def _introspect(self, asking: Asking) -> Answer:
        fields, client = await self._identified(asking)
        return _json(self._desk.introspect(fields, client))

    async def _keys(self, _: Asking) -> Answer:
        return _json(metadata.key_set(self._desk.key))

    async def _identified(self, asking: Asking) -> tuple[dict[str, str], KnownClient]:
        fields = asking.form()
        shown = read_shown(asking.headers.get("authorization", ""), fields)
        return fields, self._desk.identify(shown, await self.find_client(shown.client_id))

    def _next_page(self, ticket: str, browser: str) -> Answer:
        """The page that comes next in a browser, which keeps its name."""
        now = self._desk.clock()
        asked, user = self._desk.visits.find(ticket, browser, now).asked, self._desk.visits.user(browser, now)
        secure = "; Secure" if self._desk.issuer.startswith("https:") else ""
        cookie = f"{self._cookie}={browser}; Path={self._desk.path or '/'}; HttpOnly; SameSite=Lax{secure}"
        if user is None:
            page, back = pages.login(f"{self._desk.path}/login", ticket, asked, self._desk.offer.users), ""
        else:
            page, back = pages.consent(f"{self._desk.path}/consent", ticket, asked, user), asked.redirect_uri
        return Answer(200, {**pages.headers(back), "set-cookie": cookie}, page)

    @property
    def _cookie(self) -> str:
        """Browsers do not tell ports apart; two of us on one machine are not to log each other out."""
        return f"dovetail-dev-auth-{urlsplit(self._desk.issuer).port or 443}"

    def _browser(self, asking: Asking) -> str:
        try:
            found = SimpleCookie(asking.headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value


def _json(value: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    told = {"content-type": "application/json", "cache-control": "no-store", **_FOR_PAGES, **(headers or {})}
    return Answer(status, told, msgspec.json.encode(value))


def _go(url: str) -> Answer:
    return Answer(303, {"location": url, "cache-control": "no-store", "referrer-policy": "no-referrer"})


def _elsewhere(method: str) -> Answer:
    return (
        Answer(204, _FOR_PAGES) if method == "OPTIONS" else Answer(404, {"content-type": "text/plain"}, b"Not found.\n")
    )


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
