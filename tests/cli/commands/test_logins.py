"""Logging in and out at the command, and seeing who one is."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.invoke import AtTerminal, Done, dovetail
from tests.client.rotating import Rotating
from tests.client.site import modern
from tests.transports.http.handmade import RecordedRequest, ResponseWriter, ScriptedHttpServer

BROWSER = "#!{python}\nimport sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n"


class Desk:
    """A user's folders, and a browser that says yes."""

    def __init__(self, folder: Path) -> None:
        opener = folder / "bin" / "xdg-open"
        opener.parent.mkdir()
        opener.write_text(BROWSER.format(python=sys.executable))
        opener.chmod(stat.S_IRWXU)
        self.config = folder / "config"
        self._path = f"{opener.parent}:/usr/bin:/bin"

    async def logs_in(self, *words: str) -> Done:
        return await asyncio.to_thread(self._log_in, *words)

    async def does(self, *words: str) -> Done:
        return await asyncio.to_thread(self.run, *words)

    def run(self, *words: str) -> Done:
        """With nobody at the screen."""
        return dovetail(
            *words, XDG_CONFIG_HOME=str(self.config), DOVETAIL_KEYRING="off", DOVETAIL_LOGIN="never", DISPLAY=""
        )

    def terminal(self, *words: str) -> AtTerminal:
        """With somebody at a terminal, and no screen."""
        return AtTerminal(
            *words, XDG_CONFIG_HOME=str(self.config), DOVETAIL_KEYRING="off", DOVETAIL_LOGIN="", CI="", DISPLAY=""
        )

    def _log_in(self, *words: str) -> Done:
        return dovetail(
            "login",
            *words,
            XDG_CONFIG_HOME=str(self.config),
            DOVETAIL_KEYRING="off",
            DOVETAIL_LOGIN="browser",
            DISPLAY=":0",
            PATH=self._path,
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_login_is_stored_listed_and_deleted(desk: Desk) -> None:
    async with Rotating() as server:
        done = await desk.logs_in(server.url)
        assert (done.code, done.out) == (0, f"Logged in at {server.url}.\n")
        done = await desk.does("list", server.url)
        assert (done.code, done.out) == (0, "Nothing.\n")
        done = await desk.does("accounts")
        assert done.code == 0
        [_, _, row] = done.out.splitlines()
        assert row.split()[:4] == [server.url, "(default)", server.base, "until"]
        assert row.endswith("UTC, refreshed automatically")
        done = await desk.does("logout", server.url)
        assert (done.code, done.out) == (0, f"Logged out at {server.url}.\n")
        assert server.revoked == ["r1"]
        assert (await desk.does("accounts")).out == "There are no logins.\n"
        done = await desk.does("list", server.url, "--format", "json")
        assert (done.code, done.error["code"]) == (3, "unauthorized")
        assert f"`dovetail login {server.url}`" in done.error["message"]


async def test_one_server_can_have_several_accounts(desk: Desk) -> None:
    async with Rotating() as server:
        for name in ("work", "home"):
            assert (await desk.logs_in(server.url, "--account", name, "--scope", f"{name} all")).code == 0
        told = (await desk.does("accounts", server.url, "--format", "json")).result
        assert [(each["account"], each["default"], each["scopes"]) for each in told] == [
            ("home", False, ["home", "all"]),
            ("work", False, ["work", "all"]),
        ]
        assert (await desk.does("ping", server.url)).code == 3
        server.asked.clear()
        assert (await desk.does("ping", server.url, "--account", "work")).code == 0
        assert server.asked[0].headers["authorization"] == "Bearer t1"
        assert (await desk.does("logout", server.url)).code == 3
        assert (await desk.does("logout", server.url, "--account", "home")).code == 0
        assert (await desk.does("ping", server.url)).code == 0
        assert (await desk.does("logout", server.url, "--all", "--format", "json")).result["accounts"] == ["work"]
        assert server.revoked == ["r2", "r1"]


async def test_no_token_is_ever_shown(desk: Desk) -> None:
    async with Rotating() as server:
        done = await desk.logs_in(server.url, "--format", "json")
        text = done.out + (await desk.does("accounts", "--format", "json")).out + (await desk.does("accounts")).out
        assert list(done.result) == [
            "server", "account", "default", "user", "issuer", "clientId", "scopes", "expiresAt", "renewable",
        ]  # fmt: skip
        assert not {"t1", "r1"} & set(json.dumps(text).replace('\\"', " ").split())


async def test_a_second_login_is_a_new_one(desk: Desk) -> None:
    async with Rotating() as server:
        for _ in range(2):
            assert (await desk.logs_in(server.url)).code == 0
        assert server.grants == ["authorization_code"] * 2


async def test_a_client_that_was_registered_by_hand(desk: Desk) -> None:
    async with Rotating() as server:
        server.card = {"registration_endpoint": None}
        assert "client_id" in (await desk.logs_in(server.url)).err
        assert (await desk.logs_in(server.url, "--client-id", "mine")).code == 0
        assert server.logins[-1]["client_id"] == "mine"


async def test_a_browser_on_another_machine(desk: Desk) -> None:
    def log_in(url: str) -> tuple[int, str]:
        with desk.terminal("login", url) as terminal:
            terminal.until("Log in at ")
            page = terminal.until("\n").strip()
            terminal.until("paste the address")
            terminal.type(asyncio.run_coroutine_threadsafe(server.consent(page), loop).result(20))
            return terminal.end()

    loop = asyncio.get_running_loop()
    async with Rotating() as server:
        code, rest = await asyncio.to_thread(log_in, server.url)
        assert code == 0 and f"Logged in at {server.url}." in rest


async def test_without_a_screen_the_address_is_printed(desk: Desk) -> None:
    def log_in(url: str) -> str:
        with desk.terminal("login", url) as terminal:
            terminal.until("Log in at ")
            page = terminal.until("\n").strip()
            back = urlsplit(asyncio.run_coroutine_threadsafe(server.consent(page), loop).result(20))
            visit(back.netloc, f"{back.path}?{back.query}")
            code, rest = terminal.end()
            assert code == 0, rest
            return rest

    async with Rotating() as server:
        loop = asyncio.get_running_loop()
        assert (await asyncio.to_thread(log_in, server.url)).endswith(f"Logged in at {server.url}.\n")


def visit(place: str, path: str) -> None:
    import http.client

    connection = http.client.HTTPConnection(place)
    connection.request("GET", path)
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("login", "server.py"), 1, "only servers at a URL"),
        (("accounts", "python server.py"), 1, "only servers at a URL"),
        (("logout", "https://a.example/mcp"), 5, "There is no such login"),
        (("logout", "https://a.example/mcp", "--all"), 5, "There is no such login"),
        (("logout", "https://a.example/mcp", "--all", "--account", "x"), 1, "exclude each other"),
        (("login", "https://a.example/mcp", "--client-secret-env", "NO_SUCH"), 1, "NO_SUCH"),
        (("ping", "https://a.example/mcp", "--account", "a", "--token-env", "B"), 1, "use one"),
        (("ping", "server.py", "--account", "a"), 1, "only servers at a URL"),
    ],
)
def test_impossible_commands_exit_with_an_error(words: tuple[str, ...], code: int, told: str, desk: Desk) -> None:
    done = desk.run(*words)
    assert (done.code, told in done.err) == (code, True), done.err


async def test_a_login_without_a_user_fails(desk: Desk) -> None:
    async with Rotating() as server:
        done = await desk.does("login", server.url, "--format", "json")
        assert (done.code, done.error["code"]) == (3, "unauthorized")


async def test_a_login_at_a_server_that_offers_none_says_how_to_give_a_token(desk: Desk) -> None:
    async def script(asked: RecordedRequest, line: ResponseWriter) -> None:
        if asked.method == "POST" and asked.path == "/mcp":
            await line.answer(401, b'{"error": "no credentials were provided"}', "application/json")
        else:
            await line.answer(404)

    async with ScriptedHttpServer(script) as site:
        for done in (await desk.logs_in(site.url), await desk.does("list", site.url)):
            assert done.code == 3
            assert "no credentials were provided" in done.err
            assert "--token-env or --header" in done.err
            assert "registration" not in done.err


async def test_a_server_that_wants_no_login(desk: Desk) -> None:
    async with modern() as site:
        done = await desk.logs_in(site.url)
        assert done.code == 3
        assert "needs no login and offers none" in done.err


async def test_a_user_who_says_no(desk: Desk) -> None:
    class Unwilling(Rotating):
        async def consent(self, url: str) -> str:
            return (await super().consent(url)).replace("code=", "error=access_denied&was=")

    async with Unwilling() as server:
        done = await desk.logs_in(server.url)
        assert done.code == 3
        assert "access_denied" in done.err


async def test_a_store_that_cannot_be_read(desk: Desk) -> None:
    async with Rotating() as server:
        assert (await desk.logs_in(server.url)).code == 0
        (desk.config / "dovetail" / "accounts.key").unlink()
        done = await desk.does("accounts", "--format", "json")
        assert (done.code, done.error["code"]) == (3, "unauthorized")
        assert "accounts.key" in done.error["message"]


async def test_the_user_name_comes_from_the_authorization_server(desk: Desk) -> None:
    class Knowing(Rotating):
        def _token(self, asked: Any, fields: dict[str, str]) -> tuple[int, dict[str, Any]]:
            status, given = super()._token(asked, fields)
            claims = "eyJzdWIiOiAiMSIsICJlbWFpbCI6ICJhbm5AZXhhbXBsZS5vcmcifQ"  # {"sub": "1", "email": …}
            return status, {**given, "id_token": f"eyJhbGciOiAiRVMyNTYifQ.{claims}.AAAA"}

    async with Knowing() as server:
        assert (await desk.logs_in(server.url)).out == f"Logged in at {server.url} as ann@example.org.\n"
