"""A disk that is full, over HTTP: what needs the store is refused and can be tried again, all else goes on."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.http_process import BOTH, Answer, HttpCaller, HttpProcess
from tests.support.raw import ENVELOPE, HANDSHAKE

PROGRAM = """
from dovetail import Server

server = Server("disk")


@server.tool
async def echo(text: str) -> str:
    return text
"""
HELLO = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
MOUNT = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"'
"""In a mount namespace of its own, which ends with the process: a disk of 1 MB, then a program."""
MANY = 500
"""Sessions; they take more than the disk has."""


def begin(server: HttpProcess) -> Answer:
    connection = server.connect()
    connection.request("POST", server.path, json.dumps(HELLO), BOTH)
    return Answer(connection)


def refusal(server: HttpProcess) -> Answer:
    """Begin sessions until one is refused."""
    for _ in range(MANY):
        answer = begin(server)
        if answer.status != 200:
            return answer
        answer.close()
    raise AssertionError("The disk was never full")


def clients_of(server: HttpProcess) -> list[HttpCaller]:
    """A client with a session, and one that needs none."""
    return [server.client(HANDSHAKE), server.client(ENVELOPE)]


def check_refusals(server: HttpProcess, old: list[HttpCaller]) -> None:
    """A new session is refused, with advice; the clients from before are served."""
    for refused in (refusal(server), begin(server)):
        assert (refused.status, refused.header("retry-after")) == (503, "1")
        problem = refused.message()
        assert (problem["id"], problem["error"]["code"]) == ("hello", -32603)
        assert "try again" in problem["error"]["message"]
    for client in old:
        assert client.call("echo", text="x").messages()[-1]["result"]["content"][0]["text"] == "x"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.attack("L12")
def test_a_store_that_cannot_grow_refuses_new_sessions_until_it_can(program: Path) -> None:
    """The process may not make files longer, which the store meets where it would meet a full disk."""
    store = program.with_name("store.db")
    with HttpProcess(program, "--store", str(store)) as server:
        old = clients_of(server)
        longest = max(path.stat().st_size for path in store.parent.glob("store.db*"))
        _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (longest + 100_000, hard))
        check_refusals(server, old)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert server.client().session
        assert "Traceback" not in server.stderr


def test_a_full_disk_refuses_new_sessions_until_there_is_room(program: Path) -> None:
    disk = program.with_name("disk")
    disk.mkdir()
    mounted = ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT, str(disk)]
    try:
        subprocess.run([*mounted, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"no file system can be mounted here: {problem}")
    serve = [sys.executable, "-m", "dovetail.cli", "serve", program, "--port", "0", "--log-level", "warning"]
    with HttpProcess("", command=[*mounted, *serve, "--store", disk / "store.db"]) as server:
        filler = Path(f"/proc/{server.process.pid}/root{disk}/filler")
        old = clients_of(server)
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(b"x" * 2_000_000)
        check_refusals(server, old)
        filler.unlink()
        assert server.client().session
        assert "Traceback" not in server.stderr
