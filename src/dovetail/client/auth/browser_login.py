"""Browser login with a loopback redirect (RFC 8252, section 7.3)."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from hmac import compare_digest
from typing import Self, TypeAlias
from urllib.parse import parse_qs, urlsplit

from dovetail.auth import url_guard
from dovetail.auth.errors import AuthorizationFailed, LoginNeeded, Untrusted
from dovetail.protocol.errors import LocalError

from .interactive import LOGIN_VARIABLE, configured_login_mode, find_browser

LOGIN_SECONDS = 300.0
"""Seconds that a user may take to log in."""
REQUEST_SECONDS = 10.0
MAX_HEAD = 16 * 1024
MAX_OPEN = 16
"""The most connections to the callback that are served at once."""

OpenPage: TypeAlias = Callable[[str], Awaitable[str]]
"""Opens a URL for the user, and returns the URL that the browser was redirected to."""
Pasted: TypeAlias = Callable[[], Awaitable[str]]
"""Returns the next line that the user types."""

_HEADERS = (
    "content-type: text/html; charset=utf-8\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\n"
    "content-security-policy: default-src 'none'; frame-ancestors 'none'\r\nx-content-type-options: nosniff\r\n"
    "connection: close\r\n"
)
_PAGE = "<!doctype html><title>{0}</title><p>{0}</p>"


def print_to_stderr(text: str) -> None:
    """Print a message for the user to stderr, since stdout may be a program's output."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextlib.asynccontextmanager
async def loopback(
    redirect_uri: str | None = None,
    *,
    browser: Sequence[str] | None = None,
    show: Callable[[str], None] = print_to_stderr,
    pasted: Pasted | None = None,
    seconds: float = LOGIN_SECONDS,
) -> AsyncGenerator[tuple[str, OpenPage]]:
    """A redirect URI on this machine, and a function that opens login pages in the user's browser.

    `browser` is the program that opens pages, with its arguments; none is found where there is no screen, and then
    the user opens the address that is told. Their browser may be on another machine, from where nothing comes back:
    with `pasted` they can bring the answer themselves.
    """
    words = _found_browser() if browser is None else list(browser)
    callback = LoopbackCallback(redirect_uri)
    async with callback:

        async def open_page(url: str) -> str:
            check_page(url)
            show(f"{'If no browser opens, log in at' if words else 'Log in at'} {url}")
            callback.expect(url)
            if words:
                start_browser(words, url)
            reading = None if words or pasted is None else asyncio.ensure_future(_read(pasted, callback, show))
            try:
                async with asyncio.timeout(seconds):
                    return await callback.came
            except TimeoutError:
                raise AuthorizationFailed(f"Nobody logged in within {seconds:g} s") from None
            finally:
                if reading is not None:
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)

        yield callback.redirect_uri, open_page


async def _read(pasted: Pasted, callback: LoopbackCallback, show: Callable[[str], None]) -> None:
    """Read redirect URLs that the user pastes until one belongs to this login."""
    show(
        "If that is on another machine, its browser will find nothing in the end: then paste the address that it shows."
    )
    while True:
        line = (await pasted()).strip()
        if line and callback.accept(line):
            return
        if line:
            show(f"This is not the end of this login: it begins with {callback.redirect_uri}?")


class LoopbackCallback:
    """HTTP server on 127.0.0.1 for the redirect of one login; every other request is refused."""

    def __init__(self, redirect_uri: str | None = None) -> None:
        self.redirect_uri = redirect_uri or "http://127.0.0.1/callback"
        parts = urlsplit(self.redirect_uri)
        if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost"):
            raise LocalError(f"A login comes back to http://127.0.0.1, not to {self.redirect_uri}")
        self._given = redirect_uri is not None
        self._parts = parts
        self._state = b""
        self._open = 0

    async def __aenter__(self) -> Self:
        self.came: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        port = (self._parts.port or 80) if self._given else 0
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=MAX_HEAD)
        except OSError as problem:
            raise LocalError(f"No login can come back to {self.redirect_uri}: {problem.strerror}") from None
        if not self._given:
            self.redirect_uri = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/callback"
            self._parts = urlsplit(self.redirect_uri)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.came.cancel()

    def expect(self, url: str) -> None:
        """Expect the redirect of the login that this URL begins."""
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0].encode()

    def accept(self, address: str) -> bool:
        """Accept a redirect URL that the user pasted; False if it does not belong to this login."""
        place, _, query = address.partition("?")
        answers = place == self.redirect_uri and self._answers(query)
        if answers and not self.came.done():
            self.came.set_result(address)
        return answers

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open > MAX_OPEN:
                return
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, words, answer = self._judge(head.decode("latin-1"))
                page = _PAGE.format(words)
                writer.write(f"HTTP/1.1 {status}\r\n{_HEADERS}content-length: {len(page)}\r\n\r\n{page}".encode())
                await writer.drain()
            if answer is not None and not self.came.done():
                self.came.set_result(answer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open -= 1
            writer.close()

    def _judge(self, head: str) -> tuple[str, str, str | None]:
        """The status, the text for the user, and the redirect URL if it belongs to this login."""
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        target = rest.partition(" ")[0]
        hosts = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")]
        if hosts != [self._parts.netloc]:
            return "421 Misdirected Request", "This is not the page you are looking for.", None
        path, _, query = target.partition("?")
        if path != (self._parts.path or "/"):
            return "404 Not Found", "There is nothing here.", None
        if method != "GET":
            return "405 Method Not Allowed", "There is nothing here.", None
        if not self._answers(query):
            return "400 Bad Request", "This is not the answer to a login that was begun here.", None
        if self.came.done():
            return "410 Gone", "This login has been answered already.", None
        return "200 OK", "Done. You can close this window.", f"{self.redirect_uri}?{query}"

    def _answers(self, query: str) -> bool:
        """True if a query has the state of this login."""
        try:
            states = parse_qs(query, max_num_fields=50).get("state", [])
        except ValueError:
            return False
        return (
            bool(self._state) and len(states) == 1 and compare_digest(states[0].encode(errors="replace"), self._state)
        )


def check_page(url: str) -> None:
    """Raise for a URL that must not be opened in a browser: all but https, and http to this machine."""
    if url.startswith("-") or urlsplit(url).scheme not in ("http", "https"):
        raise Untrusted("Only http and https pages are opened for a login")
    base = url.partition("?")[0]  # the query is ours, and may be long
    url_guard.check_url(base, "The page of a login")
    if not all("\x21" <= letter <= "\x7e" for letter in url) or '"' in url or "\\" in url or "#" in url:
        raise Untrusted("The page of a login has letters that do not belong into a URL")


def _found_browser() -> list[str]:
    wish = configured_login_mode()
    if wish == "never":
        raise LoginNeeded(f"A login is needed, and {LOGIN_VARIABLE} says that nobody is there to log in")
    return [] if wish == "print" else find_browser() or []


def start_browser(words: Sequence[str], url: str) -> None:
    """Start the browser, and reap its process in a thread.

    A browser that cannot be started is no failure: the user was told the address.
    """
    with contextlib.suppress(OSError):
        started = subprocess.Popen(
            [*words, url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        threading.Thread(target=started.wait, name="dovetail browser", daemon=True).start()
