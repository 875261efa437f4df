"""A gateway whose users have accounts of their own at a server, and a browser in which they log in."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from html import unescape
from http.cookies import SimpleCookie
from typing import Any, Self
from urllib.parse import parse_qs, urljoin, urlsplit

import aiohttp

from dovetail import Client, Gateway, JWTVerifier, Server
from dovetail.gateway import AccountSettings, Credentials, ServerSettings
from dovetail.storage import Store
from dovetail.testing import DevAuth
from tests.gateway.exchanging_auth import Recorder, behind
from tests.support.http import listening, serving, url_of

KEY = "a key of the gateway, of enough characters"


class Page:
    """A page that a browser shows: its address, status, headers and text."""

    def __init__(self, url: str, status: int, headers: Mapping[str, str], text: str) -> None:
        self.url, self.status, self.headers, self.text = url, status, headers, text

    @property
    def title(self) -> str:
        found = re.search("<title>(.*?)</title>", self.text)
        return "" if found is None else found[1]

    def fields(self, action: str) -> dict[str, str]:
        """The fields of the form with the button of an action."""
        for form in re.findall("<form.*?</form>", self.text, re.DOTALL):
            if f'value="{action}"' in form:
                hidden = re.findall('<input type="hidden" name="(.*?)" value="(.*?)">', form)
                return {**{name: unescape(value) for name, value in hidden}, "action": action}
        raise AssertionError(f"there is no button {action} on the page {self.title!r}")


class Browser:
    """The browser of one user: it has cookies, follows redirects, and logs in where authorization servers ask."""

    def __init__(self, user: str, *servers: DevAuth) -> None:
        self.user = user
        self._servers = {urlsplit(server.issuer).netloc: server for server in servers}
        self._cookies: dict[tuple[str, str], str] = {}
        self._http = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        self.visited: list[str] = []
        self.stop_at = ""
        """The host of an authorization server whose page is left open."""
        self.agrees = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def open(self, url: str, form: Mapping[str, str] | None = None, origin: str | None = None) -> Page:
        """Open a page, or send a form, and follow redirects."""
        for _ in range(10):
            parts = urlsplit(url)
            self.visited.append(url)
            if parts.netloc == self.stop_at:
                return Page(url, 200, {}, "")
            if parts.netloc in self._servers:
                server = self._servers[parts.netloc]
                url = await server.agree(url, self.user) if self.agrees else await server.deny(url)
                continue
            headers = {
                "cookie": "; ".join(f"{n}={v}" for (host, n), v in self._cookies.items() if host == parts.netloc)
            }
            if form is not None:
                headers["origin"] = origin or f"{parts.scheme}://{parts.netloc}"
            method = "GET" if form is None else "POST"
            async with self._http.request(method, url, data=form, headers=headers, allow_redirects=False) as answer:
                for cookie in answer.headers.getall("set-cookie", []):
                    for name, morsel in SimpleCookie(cookie).items():
                        self._cookies[parts.netloc, name] = morsel.value
                if answer.status == 303:
                    url, form = urljoin(url, answer.headers["location"]), None
                    continue
                return Page(url, answer.status, answer.headers, await answer.text())
        raise AssertionError(f"too many redirects to {url}")

    @property
    def cookies(self) -> list[tuple[tuple[str, str], str]]:
        """The cookies, each with its host and name."""
        return list(self._cookies.items())

    def set_cookie(self, url: str, name: str, value: str) -> None:
        """Write a cookie by hand."""
        self._cookies[urlsplit(url).netloc, name] = value

    async def press(self, page: Page, action: str, **fields: str) -> Page:
        """Press a button of a page."""
        return await self.open(page.url.partition("?")[0], {**page.fields(action), **fields})

    async def connect(self, url: str) -> Page:
        """Open the link of an elicitation, prove who the user is if asked, and connect the account."""
        page = await self.open(url)
        if page.title.startswith("Log in"):
            page = await self.press(page, "login")
        return await self.press(page, "connect")


class AccountScene:
    """The gateway, its authorization servers, and the server behind it that notes its callers."""

    def __init__(self, url: str, home: DevAuth, away: DevAuth, gateways: Sequence[Gateway], recorder: Recorder) -> None:
        self.urls = [url]
        self.server_url = ""
        self.ends: list[contextlib.AsyncExitStack] = []
        """What each gateway is served by."""
        self.home, self.away, self.gateways, self.recorder = home, away, list(gateways), recorder
        self.asked: list[str] = []
        """The pages that users were asked to open."""

    @property
    def url(self) -> str:
        return self.urls[0]

    def browser(self, user: str) -> Browser:
        """A new browser, whose user is logged in nowhere."""
        return Browser(user, self.home, self.away)

    def token(self, user: str) -> str:
        """A token of a user for the gateway."""
        return self.home.token(user, f"{self.url}/mcp")

    def client(self, user: str, on_page: Callable[[str], Awaitable[Any]] | None = None, **options: Any) -> Client:
        """A client of a user; `on_page` is what the user does when asked to open a page."""

        async def answer(question: Any) -> Any:
            self.asked.append(question.url)
            assert on_page is not None
            return "accept" if await on_page(question.url) is not None else None

        at = options.pop("at", 0)
        if on_page is not None:
            options["on_elicit"] = answer
        quiet: dict[str, Any] = {"timeout": 20, "on_log": lambda level, data, name: None}
        return Client(f"{self.urls[at]}/mcp", auth=self.token(user), **{**quiet, **options})

    def connecting_client(self, user: str, **options: Any) -> Client:
        """A client whose user logs in as soon as asked to."""

        async def log_in(url: str) -> Page:
            async with self.browser(user) as browser:
                return await browser.connect(url)

        return self.client(user, log_in, **options)


@contextlib.asynccontextmanager
async def account_scene(
    make_server: Callable[[str, JWTVerifier], Server],
    back: str = "2026-07-28",
    *,
    stores: Sequence[Store | None] = (None,),
    keys: Sequence[str] = (),
    **options: Any,
) -> AsyncGenerator[AccountScene]:
    """Gateways, one for each store, whose users log in at `home`; the server accepts tokens of `away` only.

    They have one key and one public URL, unless `keys` has a key for each: then each has a URL of its own, too.
    `options` are further options of the gateways.
    """
    sockets = [listening() for _ in stores]
    url = url_of(sockets[0])
    async with contextlib.AsyncExitStack() as stack:
        home = await stack.enter_async_context(DevAuth().serving())
        away = await stack.enter_async_context(DevAuth().serving())
        address, recorder = await stack.enter_async_context(behind(functools.partial(make_server, back), away.issuer))
        gateways: list[Gateway] = []
        ends: list[contextlib.AsyncExitStack] = []
        for number, (store, sock) in enumerate(zip(stores, sockets, strict=True)):
            accounts = AccountSettings(url=url, keys=(KEY,))
            if keys:
                accounts = AccountSettings(url=url_of(sock), keys=(keys[number],))
            gateway = Gateway(
                {"notes": address},
                name="team",
                auth=JWTVerifier(issuer=home.issuer, audience=f"{url}/mcp"),
                settings={"notes": ServerSettings(credentials=Credentials(type="user-account"))},
                accounts=accounts,
                **options,
            )
            end = await stack.enter_async_context(contextlib.AsyncExitStack())
            await end.enter_async_context(serving(gateway.asgi(store=store), sock))
            gateways.append(gateway)
            ends.append(end)
        scene = AccountScene(url, home, away, gateways, recorder)
        scene.server_url = address
        scene.ends = ends
        scene.urls = [url_of(sock) for sock in sockets]
        yield scene


def query_of(url: str) -> dict[str, str]:
    """The fields of the query of a URL."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
