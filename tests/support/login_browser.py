"""A browser without JavaScript for login pages: cookies, forms and redirects."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any, Self
from urllib.parse import urljoin

import aiohttp


class _Form(HTMLParser):
    """The one form of a page: where it goes, what it sends by itself, and its buttons."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.buttons: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = given["action"]
        elif tag == "input" and given.get("name") != "user":
            self.fields[given["name"]] = given["value"]
        elif tag == "button" and "name" in given:
            self.buttons.append((given["name"], given["value"]))


class Page:
    """What came back."""

    def __init__(self, url: str, status: int, headers: Any, text: str) -> None:
        self.url = url
        self.status = status
        self.headers = headers
        self.text = text
        self.form = _Form(text)

    @property
    def location(self) -> str:
        return self.headers["location"]


class LoginBrowser:
    """One browser, which follows no redirects by itself."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, url: str, **headers: str) -> Page:
        return await self._ask("GET", url, headers=headers)

    async def post(self, url: str, fields: dict[str, str], **headers: str) -> Page:
        return await self._ask("POST", url, data=fields, headers=headers)

    async def submit(self, page: Page, **fields: str) -> Page:
        """Send the form of a page."""
        assert page.form.action is not None, page.text
        return await self.post(urljoin(page.url, page.form.action), {**page.form.fields, **fields})

    async def log_in(self, url: str, user: str = "ada", decision: str = "allow") -> str:
        """The whole way: from the page of a login to where the browser is sent back to."""
        page = await self.get(url)
        if "Log in" in page.text:
            page = await self.submit(page, user=user)
        page = await self.submit(page, decision=decision)
        assert page.status == 303, page.text
        return page.location

    async def _ask(self, method: str, url: str, **more: Any) -> Page:
        async with self._session.request(method, url, allow_redirects=False, **more) as answer:
            return Page(url, answer.status, answer.headers, await answer.text())
