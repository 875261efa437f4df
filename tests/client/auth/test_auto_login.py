"""A client that was given no credentials: it uses the user's logins, has the user log in, or says what is missing."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dovetail import Client
from dovetail.auth.errors import AuthorizationFailed, LoginNeeded
from dovetail.client.auth.auto_login import AutoLogin
from dovetail.client.auth.encryption_keys import StoreUnreadable
from dovetail.client.auth.oauth import OAuth
from dovetail.client.auth.token_store import default_tokens
from dovetail.protocol.errors import HttpStatus, LocalError
from dovetail.transports.http.contract import HttpOptions
from tests.client.protected import BACK
from tests.client.rotating import Rotating
from tests.client.site import Status, modern
from tests.transports.http.handmade import RecordedRequest, ResponseWriter, ScriptedHttpServer

BROWSER = """#!{python}
import sys, time, urllib.request
time.sleep({seconds})
urllib.request.urlopen(sys.argv[1]).read()
"""


class User:
    """Somebody with folders of their own, who may sit at a screen."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._patch = monkeypatch
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI", "DOVETAIL_LOGIN", "DOVETAIL_TOKEN_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        monkeypatch.setenv("DOVETAIL_KEYRING", "off")

    @property
    def kept(self) -> list[str]:
        """The files that were written for the user."""
        return sorted(path.name for path in (self._folder / "config").rglob("*") if path.is_file())

    def sits_down(self, seconds: float = 0) -> None:
        """At a screen, with a browser that takes a while."""
        opener = self._folder / "bin" / "xdg-open"
        opener.parent.mkdir(exist_ok=True)
        opener.write_text(BROWSER.format(python=sys.executable, seconds=seconds))
        opener.chmod(stat.S_IRWXU)
        self._patch.setenv("PATH", f"{opener.parent}:{os.environ['PATH']}")
        self._patch.setenv("DISPLAY", ":0")

    def leaves(self) -> None:
        self._patch.setenv("DOVETAIL_LOGIN", "never")

    async def logs_in(self, server: Rotating, account: str = "") -> None:
        oauth = OAuth(open_page=server.consent, redirect_uri=BACK, store=default_tokens(), account=account)
        await oauth.login_again(server.url)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    return User(tmp_path, monkeypatch)


def shown(server: Rotating) -> list[str | None]:
    """The credentials that came with each message."""
    return [asked.headers.get("authorization") for asked in server.asked if asked.path == "/mcp"]


class TestLoggingIn:
    async def test_with_a_browser_once_and_silently_afterwards(self, user: User) -> None:
        user.sits_down()
        async with Rotating() as server:
            async with Client(server.url) as client:
                assert await client.tools() == []
            user.leaves()
            async with Client(server.url) as client:
                assert await client.tools() == []
            assert (len(server.logins), server.grants) == (1, ["authorization_code"])
            assert shown(server) == [None] + ["Bearer t1"] * 4

    async def test_a_user_may_take_longer_than_a_server(self, user: User) -> None:
        user.sits_down(seconds=1.0)
        async with Rotating() as server, Client(server.url, timeout=0.4) as client:
            assert client.revision == "2026-07-28"
            assert len(server.logins) == 1

    async def test_without_a_screen_the_address_is_printed(
        self, user: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("DOVETAIL_LOGIN", "print")
        async with Rotating() as server:
            opening = asyncio.ensure_future(Client(server.url).open())
            told = ""
            while not told.endswith("\n"):
                told += capsys.readouterr().err
                await asyncio.sleep(0.001)
            page = told.removeprefix("Log in at ").strip()
            assert page.startswith(f"{server.base}/authorize?")
            back = urlsplit(await server.consent(page))
            reader, writer = await asyncio.open_connection(back.hostname, back.port)
            writer.write(f"GET {back.path}?{back.query} HTTP/1.1\r\nHost: {back.netloc}\r\n\r\n".encode())
            assert b"200 OK" in await reader.read()
            writer.close()
            await opening

    def test_the_blocking_client_does_the_same(self, user: User) -> None:
        user.sits_down()

        async def main() -> None:
            async with Rotating() as server:
                await asyncio.to_thread(blocking, server.url)
                assert len(server.logins) == 1

        def blocking(url: str) -> None:
            for _ in range(2):
                with Client.blocking(url) as client:
                    assert client.tools() == []

        asyncio.run(main())

    async def test_a_login_that_was_done_meanwhile_is_used(self, user: User) -> None:
        user.leaves()
        async with Rotating() as server:
            auth = AutoLogin(HttpOptions())
            assert await auth.headers("POST", server.url) == {}
            await user.logs_in(server)
            assert await auth.refused(server.url, {}, 401, {})
            assert await auth.headers("POST", server.url) == {"authorization": "Bearer t1"}

    async def test_many_who_are_refused_at_once_share_one_login(self, user: User) -> None:
        user.sits_down()
        async with Rotating() as server:
            auth = AutoLogin(HttpOptions())
            assert all(await asyncio.gather(*[auth.refused(server.url, {}, 401, {}) for _ in range(8)]))
            assert len(server.logins) == 1


class TestNobodyThere:
    async def test_the_error_names_both_remedies_and_nothing_was_done(self, user: User) -> None:
        user.leaves()
        async with Rotating() as server:
            with pytest.raises(LoginNeeded) as caught:
                await Client(server.url).open()
            assert f"`dovetail login {server.url}`" in str(caught.value)
            assert caught.value.reason == f"{server.url} wants a login, and nobody is there to log in"
            assert "auth=" in str(caught.value)
            assert [asked.path for asked in server.asked] == ["/mcp"]
            assert user.kept == []

    @pytest.mark.parametrize("challenge", [None, "Bearer"])
    @pytest.mark.parametrize("mode", ["never", "browser"])
    async def test_a_server_without_an_authorization_server_wants_a_token(
        self, mode: str, challenge: str | None, user: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        user.sits_down()
        monkeypatch.setenv("DOVETAIL_LOGIN", mode)

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            if asked.method == "POST" and asked.path == "/mcp":
                said = b'{"error": "no \\u001b[31mAtlassian credentials ' + b"x" * 5000 + b'"}'
                given = {} if challenge is None else {"www_authenticate": challenge}
                await line.answer(401, said, "application/json", **given)
            else:
                await line.answer(404)

        async with ScriptedHttpServer(script) as site:
            with pytest.raises(HttpStatus) as caught:
                await Client(site.url).open()
        text = str(caught.value)
        assert text.startswith(f"{site.url} answered 401 Unauthorized: ")
        assert "Atlassian credentials" in text
        assert "Atlassian credentials" in caught.value.reason and "auth=" not in caught.value.reason
        assert "dovetail login" not in text
        assert text.endswith(
            "(it wants credentials: give a token with auth= or a header with headers=, "
            "on the command line with --token-env or --header)"
        )
        assert "\x1b" not in text and len(text) < 600

    async def test_a_login_that_has_ended(self, user: User) -> None:
        user.leaves()
        async with Rotating() as server:
            await user.logs_in(server, "work")
            server.tokens.clear()
            server.refresh_tokens.clear()
            with pytest.raises(LoginNeeded, match="--account work"):
                await Client(server.url).open()
            assert len(server.logins) == 1

    async def test_a_login_that_can_be_renewed_needs_nobody(self, user: User) -> None:
        user.leaves()
        async with Rotating() as server:
            await user.logs_in(server)
            server.expire()
            async with Client(server.url):
                assert server.refreshes == 1

    async def test_a_login_of_ones_own_is_told_that_nobody_comes(self, user: User) -> None:
        user.leaves()
        async with Rotating() as server:
            with pytest.raises(LoginNeeded, match="DOVETAIL_LOGIN says that nobody is there"):
                await Client(server.url, auth=OAuth()).open()


class TestLeftAlone:
    async def test_a_server_that_wants_nothing_costs_nothing(self, user: User, tmp_path: Path) -> None:
        program = (
            "import asyncio, json, sys\nfrom dovetail import Client\n"
            "async def main():\n    async with Client(sys.argv[1]) as client:\n        await client.tools()\n"
            "asyncio.run(main())\n"
            "print(json.dumps([name for name in ('cryptography', 'keyring', 'dovetail.client.auth.oauth',"
            " 'dovetail.client.auth.token_store') if name in sys.modules]))"
        )
        tools: Any = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
        async with modern(tools_list=tools) as site:
            command = [sys.executable, "-c", program, site.url]
            done = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=60, check=True)
        assert json.loads(done.stdout) == []
        assert user.kept == []

    async def test_the_login_at_another_server_is_nobodys_business(self, user: User) -> None:
        user.leaves()
        async with Rotating() as server, modern() as other:
            await user.logs_in(server)
            async with Client(other.url):
                assert [asked.headers.get("authorization") for asked in other.asked] == [None]

    @pytest.mark.parametrize("how", [{"auth": False}, {"headers": {"Authorization": "Bearer mine"}}])
    async def test_who_says_so_is_not_logged_in(self, how: dict[str, Any], user: User) -> None:
        user.sits_down()
        async with Rotating() as server:
            await user.logs_in(server)
            with pytest.raises(HttpStatus, match="401"):
                await Client(server.url, **how).open()
            assert len(server.logins) == 1
            assert "Bearer t1" not in shown(server)

    async def test_other_credentials_than_tokens_are_the_users_to_give(self, user: User) -> None:
        user.sits_down()

        async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
            await line.answer(401, www_authenticate='Basic realm="here"')

        async with ScriptedHttpServer(script) as site:
            with pytest.raises(HttpStatus, match="it wants credentials"):
                await Client(site.url).open()

    async def test_a_403_is_no_reason_to_log_in(self, user: User) -> None:
        user.sits_down()
        async with modern(server_discover=Status(403)) as site:
            with pytest.raises(HttpStatus, match="403"):
                await Client(site.url).open()

    def test_a_command_has_no_login(self) -> None:
        with pytest.raises(LocalError, match="for servers behind a URL"):
            Client("python server.py", auth=False)


class TestAccounts:
    async def test_the_only_account_is_meant(self, user: User) -> None:
        user.leaves()
        async with Rotating() as server:
            await user.logs_in(server, "work")
            async with Client(server.url):
                assert shown(server) == ["Bearer t1"]

    async def test_of_several_the_one_without_a_name_is_meant(self, user: User) -> None:
        user.leaves()
        async with Rotating() as server:
            for name in ("work", "", "home"):
                await user.logs_in(server, name)
            async with Client(server.url):
                assert shown(server) == ["Bearer t2"]

    async def test_of_several_with_names_one_is_to_be_named(self, user: User) -> None:
        user.leaves()
        async with Rotating() as server:
            for name in ("work", "home"):
                await user.logs_in(server, name)
            with pytest.raises(AuthorizationFailed, match=r"several accounts at .* home, work"):
                await Client(server.url).open()
            async with Client(server.url, auth=OAuth(account="work")):
                assert shown(server) == ["Bearer t1"]

    async def test_a_store_that_is_damaged_is_no_reason_to_log_in_again(self, user: User) -> None:
        user.sits_down()
        async with Rotating() as server:
            await user.logs_in(server)
            default_tokens().path.write_bytes(b"nonsense")
            with pytest.raises(StoreUnreadable, match="is damaged: remove it and log in again"):
                await Client(server.url).open()
            assert len(server.logins) == 1

    async def test_a_server_that_knows_no_clients_of_ours(self, user: User) -> None:
        user.sits_down()
        async with Rotating() as server:
            server.card = {"registration_endpoint": None}
            with pytest.raises(LoginNeeded, match="--client-id") as caught:
                await Client(server.url).open()
            assert caught.value.reason.startswith(f"{server.url} wants credentials, and no login there is possible")
            assert "auth=" not in caught.value.reason
