"""Whether somebody is there who could log in."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.client.auth.interactive import configured_login_mode, find_browser, login_mode
from dovetail.protocol.errors import LocalError

SCREEN = {"DISPLAY": ":0"}


@pytest.fixture
def opener(tmp_path: Path) -> dict[str, str]:
    program = tmp_path / "xdg-open"
    program.touch(0o755)
    return {"PATH": str(tmp_path)}


def test_the_browser_that_the_user_wants(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("#!/bin/sh\n")
    mine.chmod(0o755)
    assert find_browser({"BROWSER": f"{mine} --new %s:other"}, "linux") == [str(mine), "--new"]
    assert find_browser({"BROWSER": "/no/such/browser"}, "linux") is None
    assert find_browser({"BROWSER": "'"}, "linux") is None


def test_a_screen_with_a_browser(opener: dict[str, str]) -> None:
    assert login_mode({**opener, **SCREEN}, "linux") == "browser"
    assert login_mode({**opener, "WAYLAND_DISPLAY": "wayland-0"}, "linux") == "browser"


def test_a_screen_or_a_browser_alone_is_not_enough(opener: dict[str, str]) -> None:
    assert find_browser(opener, "linux") is None
    assert find_browser({**SCREEN, "PATH": "/nowhere"}, "linux") is None


def test_a_job_of_a_ci_service(opener: dict[str, str]) -> None:
    assert login_mode({**opener, **SCREEN, "CI": "true"}, "linux") == "never"


@pytest.mark.parametrize("wish", ["browser", "print", "never"])
def test_the_user_knows_better(wish: str, opener: dict[str, str]) -> None:
    assert login_mode({**opener, **SCREEN, "CI": "1", "DOVETAIL_LOGIN": wish}, "linux") == wish


def test_a_wish_that_nobody_understands() -> None:
    with pytest.raises(LocalError, match="browser, print or never, not 'yes'"):
        configured_login_mode({"DOVETAIL_LOGIN": "yes"})


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_a_screen_that_the_user_is_not_at(platform: str) -> None:
    assert find_browser({}, platform) is not None
    assert find_browser({"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, platform) is None


@pytest.mark.parametrize(("terminal", "found"), [(True, "print"), (False, "never")])
def test_a_terminal(terminal: bool, found: str) -> None:
    master, slave = pty.openpty()
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from dovetail.client.auth.interactive import login_mode; print(login_mode({}, 'linux'))",
            ],
            stdout=subprocess.PIPE,
            stderr=slave if terminal else subprocess.PIPE,
            timeout=60,
            text=True,
        )
        assert done.stdout.strip() == found
    finally:
        os.close(master)
        os.close(slave)
