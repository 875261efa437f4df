"""Pages that a server wants opened: only those of the web, and never by way of a shell (CVE-2025-6514)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dovetail import Client
from dovetail.auth.errors import AuthorizationFailed, Untrusted
from dovetail.client.auth.browser_login import check_page, loopback
from dovetail.client.auth.grants import BrowserLogin
from dovetail.client.auth.oauth import OAuth
from tests.attacks.attack_setup import AUTHORIZATION_SERVER, AttackerServer, attacker_server, server_metadata
from tests.support.waiting import until

NOTES = """
import pathlib, sys
draft = pathlib.Path(sys.argv[1] + ".draft")
draft.write_text("\\n".join(sys.argv[2:]))
draft.rename(sys.argv[1])
"""


def browser(tmp_path: Path) -> tuple[list[str], Path]:
    """A program in place of a browser, which writes down what it is given."""
    program, notes = tmp_path / "browser.py", tmp_path / "opened"
    program.write_text(NOTES)
    return [sys.executable, str(program), str(notes)], notes


async def log_in(attacker: AttackerServer, words: list[str], told: list[str]) -> None:
    way = BrowserLogin(lambda: loopback(browser=words, show=told.append, seconds=1.0), name="Dovetail")
    await Client(f"{attacker.url}/mcp", auth=OAuth(way)).open()


@pytest.mark.parametrize(
    "page",
    [
        "javascript:alert(1)",
        "JavaScript://127.0.0.1/%0aalert(1)",
        "file:///etc/passwd",
        "data:text/html,<script>alert(1)</script>",
        "-flag",
        "--proxy-server=evil.example",
        "a:$(touch pwned)",
        "calc.exe",
        "\\\\evil.example\\share\\x.exe",
        "ms-msdt:/id",
        "vscode://extension",
        "https://user:pass@127.0.0.1/authorize",
        "http://evil.example/authorize",
        "https://evil.example/\nX",
        "https://evil.example/ --flag",
        "https://evil.example/\u202eexe",
        "",
    ],
)
async def test_what_is_no_page_is_not_opened(page: str, tmp_path: Path) -> None:
    words, notes = browser(tmp_path)
    told: list[str] = []
    async with attacker_server() as attacker:
        attacker.poses(f"{attacker.url}/mcp")
        attacker.pages["/mcp"] = (401, {"www-authenticate": "Bearer"}, b"")
        attacker.pages[AUTHORIZATION_SERVER] = server_metadata(attacker.url, authorization_endpoint=page)
        with pytest.raises(AuthorizationFailed):
            await log_in(attacker, words, told)
        attacker.learned_nothing()
    assert not notes.exists() and told == []


async def test_letters_that_mean_something_to_a_shell_mean_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, notes = browser(tmp_path)
    told: list[str] = []
    async with attacker_server() as attacker:
        attacker.poses(f"{attacker.url}/mcp")
        attacker.pages["/mcp"] = (401, {"www-authenticate": "Bearer"}, b"")
        page = (
            f"{attacker.url}/a;touch${{IFS}}pwned`touch${{IFS}}pwned`|touch${{IFS}}pwned&&$(touch${{IFS}}pwned)'%PATH%"
        )
        attacker.pages[AUTHORIZATION_SERVER] = server_metadata(attacker.url, authorization_endpoint=page)
        with pytest.raises(AuthorizationFailed, match="Nobody logged in"):
            await log_in(attacker, words, told)
    await until(notes.exists)
    (opened,) = notes.read_text().split("\n")
    assert opened.startswith(f"{page}?response_type=code&")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("page", ["-x", "file:///x", "javascript:x", "https://a/\x00", 'https://a/?"', "https://a/#x"])
def test_the_last_look_before_a_page_is_opened(page: str) -> None:
    with pytest.raises(Untrusted):
        check_page(page)
