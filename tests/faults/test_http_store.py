"""A store that does not work, over HTTP: what needs it is refused soon and can be tried again, all else goes on."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import SERVERS
from tests.support.http_process import BOTH, Answer, HttpProcess
from tests.support.raw import ENVELOPE, HANDSHAKE

HELLO = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def server(store: Path) -> Iterator[HttpProcess]:
    with HttpProcess(SERVERS / "lingering.py", "--store", str(store)) as process:
        yield process


@pytest.mark.attack("L12")
@pytest.mark.one_replica("tests/replicas/test_redis_outage.py has this with Redis")
def test_a_new_session_is_refused_soon_while_another_process_locks_the_store(server: HttpProcess, store: Path) -> None:
    old, stateless = server.client(), server.client(ENVELOPE)
    other = sqlite3.connect(store, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        seconds: list[float] = []
        for _ in range(3):
            begun = time.monotonic()
            connection = server.connect()
            connection.request("POST", server.path, json.dumps(HELLO), BOTH)
            refused = Answer(connection)
            seconds.append(time.monotonic() - begun)
            assert (refused.status, refused.header("retry-after")) == (503, "1")
            problem = refused.message()
            assert (problem["id"], problem["error"]["code"]) == ("hello", -32603)
            assert "try again" in problem["error"]["message"]
        # The first waits for the lock; those that follow do not wait as long again.
        assert sum(seconds) < 8
        for client in (old, stateless):
            assert client.call("echo", text="x").messages()[-1]["result"]["content"][0]["text"] == "x"
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert server.client().session
    assert "Traceback" not in server.stderr
