"""A login with a real browser, a real authorization server and a real server, each in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dovetail import Client, OAuth
from dovetail.auth.errors import Denied
from dovetail.auth.tokens import Account
from dovetail.client.auth.token_store import MemoryTokens
from tests.browser.chromium import BROWSER, DRIVER, Chromium, chromium
from tests.docs.test_blocks import listens
from tests.support.http import free_port
from tests.support.login_browser import LoginBrowser
from tests.support.raw import eventually

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        BROWSER is None or DRIVER is None, reason="chromium is not installed; `.ci/browser` says how to get it"
    ),
]


class Process:
    """A program, and what it has said so far."""

    def __init__(self, *words: str) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._said,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        )

    @property
    def said(self) -> str:
        return os.pread(self._said.fileno(), 1_000_000, 0).decode()

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        self._said.close()


@contextlib.contextmanager
def started(*words: str) -> Iterator[Process]:
    process = Process(*words)
    try:
        yield process
    finally:
        process.end()


class Town:
    """The authorization server and the protected one."""

    def __init__(self, authority: Process, issuer: str, url: str) -> None:
        self._authority = authority
        self.issuer = issuer
        self.url = url

    def given(self, kind: str) -> int:
        """How often tokens were given for something."""
        return self._authority.said.count(f"{kind}: a token for")


@contextlib.contextmanager
def town(*options: str) -> Iterator[Town]:
    with started("-m", "dovetail.cli", "dev-auth", "--port", "0", *options) as authority:
        found = eventually(
            lambda: re.search(r"^(http://\S+) issues tokens", authority.said, re.MULTILINE) or authority.process.poll(),
            "the issuer is told",
        )
        assert isinstance(found, re.Match), authority.said
        port = free_port()
        with started(str(HERE / "house.py"), found[1], str(port)) as house:
            eventually(lambda: listens(port) or house.process.poll() is not None, "the server listens")
            assert house.process.poll() is None, house.said
            yield Town(authority, found[1], f"http://127.0.0.1:{port}/mcp")


class User:
    """Somebody at a browser, who logs in as ada and answers when a page is opened."""

    def __init__(self, browser: Chromium, folder: Path) -> None:
        self.browser = browser
        self.buttons = ["Allow"]
        """What to press after the login, page by page."""
        self.seen: list[tuple[str, str]] = []
        self._opened = folder / "opened"
        opener = folder / "xdg-open"
        opener.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >> "{self._opened}"\n')
        opener.chmod(0o755)

    async def attend(self) -> None:
        """Do what each page is for that a program opens."""
        for number in itertools.count():
            while len(pages := self._opened.read_text().splitlines() if self._opened.exists() else []) <= number:
                await asyncio.sleep(0.02)
            await self.browser.go(pages[number])
            await self._see()
            if "User name" in self.seen[-1][1]:
                await self.browser.type("user", "ada")
                await self._press("Log in")
            for button in self.buttons:
                await self._press(button)

    async def _press(self, button: str) -> None:
        await self.browser.click(button)
        await self._see()

    async def _see(self) -> None:
        self.seen.append((await self.browser.title(), await self.browser.text()))

    @property
    def titles(self) -> list[str]:
        return [title for title, _ in self.seen]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    """The browser is what the system opens pages with."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("DOVETAIL_LOGIN", "browser")
    with chromium() as opened:
        yield User(opened, tmp_path)


class Keeping(MemoryTokens):
    """Lets a test see what is kept."""

    newest: bytes = b""

    async def save(self, name: str, content: bytes | None) -> None:
        self.newest = content or b""
        await super().save(name, content)

    async def revoke(self, at: Town) -> None:
        """End the login at the authorization server, as somebody might who lost a laptop."""
        account = Account.decode(self.newest)
        assert account.tokens.refresh_token is not None
        async with LoginBrowser() as visitor:
            fields = {"token": account.tokens.refresh_token, "client_id": account.client.id}
            assert (await visitor.post(f"{at.issuer}/revoke", fields)).status == 200


@contextlib.asynccontextmanager
async def attended(user: User) -> AsyncIterator[None]:
    """The user is there meanwhile."""
    async with asyncio.TaskGroup() as group:
        attending = group.create_task(user.attend())
        yield
        attending.cancel()


async def whoami(client: Client) -> str:
    return (await client.call("whoami")).data


async def test_a_login_its_expiry_its_silent_renewal_and_its_end(user: User) -> None:
    store = Keeping()
    login = OAuth(name="The <Guest>", scopes=["rooms"], store=store)
    with town("--token-seconds", "1") as at:
        async with attended(user), Client(at.url, auth=login) as client:
            assert await whoami(client) == "ada"
            assert at.given("authorization_code") == 1
            before = at.given("refresh_token")
            while at.given("refresh_token") < before + 2:  # a token lives for a second
                assert await whoami(client) == "ada"
                await asyncio.sleep(0.05)
            [asks, consent, callback] = user.seen  # no other page was opened
            assert asks[0] == "Log in" and "development only" in asks[1] and "The <Guest>" in asks[1]
            assert consent[0] == "Allow access?" and at.url in consent[1] and "rooms" in consent[1]
            assert "The <Guest> wants to use" in consent[1]
            assert "close this window" in callback[1]
            assert urlsplit(await user.browser.url()).path == "/callback"

            await store.revoke(at)
            while at.given("authorization_code") == 1:
                assert await whoami(client) == "ada"
                await asyncio.sleep(0.05)
            while len(user.seen) < 5:  # the code is here before the browser shows the last page
                await asyncio.sleep(0.02)
            assert user.titles[3:] == ["Allow access?", callback[0]]  # the browser remembers who it is
        assert not [one for one in await user.browser.complaints() if "favicon" not in one]


async def test_consent_is_denied(user: User) -> None:
    user.buttons = ["Deny"]
    with town() as at:
        async with attended(user):
            with pytest.raises(Denied, match=r"access_denied: The user denied access"):
                async with Client(at.url, auth=OAuth()):
                    pass
            while len(user.seen) < 3:
                await asyncio.sleep(0.02)
        assert at.given("authorization_code") == 0
        assert user.titles[:2] == ["Log in", "Allow access?"]
        assert urlsplit(await user.browser.url()).path == "/callback"


async def test_somebody_else_at_the_same_browser(user: User) -> None:
    user.buttons = ["ada", "Switch user", "bob", "Allow"]
    with town("--user", "ada", "--user", "bob") as at:
        async with attended(user), Client(at.url, auth=OAuth()) as client:
            assert await whoami(client) == "bob"
