"""`dovetail dev-auth` as a process: what it says, where it listens, and how it ends."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest

from tests.cli.invoke import COMMAND, PATIENCE, ROOT, dovetail, environment
from tests.support.http import free_port, listening


class Authority:
    """The process, whose first lines were read."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "dev-auth", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
        )
        assert self.process.stdout is not None
        lines: list[str] = []
        while not lines or "server = " not in lines[-1]:
            lines.append(self.process.stdout.readline())
            assert lines[-1], lines
        self.said = "".join(lines)
        found = re.search(r"^(\S+) issues tokens", self.said, re.MULTILINE)
        assert found is not None
        self.issuer = found[1]

    def document(self, url: str) -> dict[str, object]:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return json.load(answer)


@contextlib.contextmanager
def authority(*options: str) -> Iterator[Authority]:
    started = Authority(*options)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.communicate()


def test_it_says_what_it_is_and_how_to_use_it() -> None:
    with authority("--port", "0", "--token-seconds", "5", "--resource", "http://127.0.0.1:8123/mcp") as it:
        assert it.said.startswith("FOR DEVELOPMENT ONLY")
        assert "lifetime of 5 s" in it.said
        lines = [line.strip() for line in it.said.splitlines() if line.startswith("    ")]
        assert len(lines) == 3
        names: dict[str, object] = {}
        exec("\n".join(lines), names)
        assert {"auth", "server"} <= set(names)
        assert it.issuer in lines[1] and "http://127.0.0.1:8123/mcp" in lines[1]


def test_the_page_about_it_shows_what_it_says() -> None:
    page = (ROOT / "docs" / "authorization.md").read_text()
    shown = page.partition("$ dovetail dev-auth\n")[2].partition("```")[0]
    with authority("--port", "0") as it:
        assert it.said.replace(it.issuer, "http://127.0.0.1:8090") == shown


def test_only_this_machine_gets_in_and_a_signal_ends_it() -> None:
    with authority("--port", "0") as it:
        port = int(it.issuer.rpartition(":")[2])
        assert it.issuer == f"http://127.0.0.1:{port}"
        assert it.document(f"{it.issuer}/.well-known/oauth-authorization-server")["issuer"] == it.issuer
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port), 1):
            pass
        it.process.send_signal(signal.SIGTERM)
        assert it.process.wait(PATIENCE) == 0


def test_the_issuer_may_be_another_address() -> None:
    port = free_port()
    with authority("--port", str(port), "--issuer", f"http://localhost:{port}", "--scope", "read") as it:
        about = it.document(f"http://127.0.0.1:{port}/.well-known/openid-configuration")
        assert about["issuer"] == f"http://localhost:{port}"
        assert about["scopes_supported"] == ["read", "offline_access"]


def test_a_port_that_is_taken() -> None:
    with contextlib.closing(listening()) as taken:
        done = dovetail("dev-auth", "--port", str(taken.getsockname()[1]))
    assert done.code == 1
    assert "Cannot listen at 127.0.0.1" in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["--port", "70000"],
        ["--token-seconds", "0"],
        ["--client", "robot"],
        ["--scope", "two words"],
        ["--issuer", "http://auth.example.com"],
    ],
)
def test_invalid_options_are_usage_errors(words: list[str]) -> None:
    done = dovetail("dev-auth", "--port", "0", *words)
    assert done.code == 1 and done.err.startswith("dovetail: ") and "Traceback" not in done.err
