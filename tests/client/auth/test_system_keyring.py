"""Keys in a real keyring: GNOME's, on a bus of our own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.keyring import ABSENT, Desktop, desktop, surroundings

pytestmark = pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))

PROGRAM = """
import asyncio, json, sys
import keyring.backends.SecretService  # whose import is not what takes long in these tests
from dovetail.client.auth import system_keyring
from dovetail.client.auth.token_store import FileTokens
from dovetail.protocol.errors import LocalError
system_keyring.UNATTENDED_SECONDS = float(sys.argv[1])

async def main(path, name, content=None):
    store = FileTokens(path)
    if content is not None:
        await store.save(name, content.encode())
    loaded = await store.load(name)
    return None if loaded is None else loaded.decode()

try:
    print(json.dumps({"loaded": asyncio.run(main(*sys.argv[2:]))}))
except LocalError as problem:
    print(json.dumps({"kind": type(problem).__name__, "problem": str(problem)}))
"""


def tokens(environ: Mapping[str, str], *words: str, seconds: float = 20) -> dict[str, Any]:
    """Use a store in a process of its own: its path, a name, and what to keep there first."""
    command = [sys.executable, "-c", PROGRAM, str(seconds), *words]
    done = subprocess.run(command, env=dict(environ), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    with desktop(tmp_path_factory.mktemp("desktop")) as found:
        yield found


def test_the_key_is_in_the_keyring_and_other_processes_find_it_there(there: Desktop, tmp_path: Path) -> None:
    path = str(tmp_path / "accounts")
    assert tokens(there.environ, path, "a", "secret") == {"loaded": "secret"}
    assert sorted(os.listdir(tmp_path)) == ["accounts", "accounts.lock"]
    assert tokens(there.environ, path, "a") == {"loaded": "secret"}
    assert tokens(there.environ, path, "b", "more") == {"loaded": "more"}
    assert tokens(there.environ, path, "a") == {"loaded": "secret"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}, "where it is not found now"),
        ({"DOVETAIL_KEYRING": "off"}, "DOVETAIL_KEYRING=off forbids to look there"),
        ({"DOVETAIL_TOKEN_KEY": "k" * 32, "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}, "not found now"),
    ],
)
def test_the_file_alone_is_of_no_use(there: Desktop, change: dict[str, str], told: str, tmp_path: Path) -> None:
    path = str(tmp_path / "accounts")
    assert tokens(there.environ, path, "a", "secret") == {"loaded": "secret"}
    before = (tmp_path / "accounts").read_bytes()
    assert b"secret" not in before
    for words in ((), ("other",)):
        said = tokens({**there.environ, **change}, path, "a", *words)
        assert said["kind"] == "StoreUnreadable"
        assert told in said["problem"]
    assert (tmp_path / "accounts").read_bytes() == before


def test_two_files_have_two_keys(there: Desktop, tmp_path: Path) -> None:
    for name in ("accounts", "secrets"):
        assert tokens(there.environ, str(tmp_path / name), "a", name) == {"loaded": name}
    (tmp_path / "secrets").write_bytes((tmp_path / "accounts").read_bytes())
    assert "cannot be read with this key" in tokens(there.environ, str(tmp_path / "secrets"), "a")["problem"]


def test_without_a_keyring_the_key_is_beside_the_file_and_stays_there(there: Desktop, tmp_path: Path) -> None:
    path = str(tmp_path / "accounts")
    assert tokens(surroundings(there.folder), path, "a", "secret") == {"loaded": "secret"}
    assert (tmp_path / "accounts.key").exists()
    assert tokens(there.environ, path, "b", "more") == {"loaded": "more"}
    assert tokens(surroundings(there.folder), path, "b") == {"loaded": "more"}


def test_the_keyring_can_be_left_alone(there: Desktop, tmp_path: Path) -> None:
    off = {**there.environ, "DOVETAIL_KEYRING": "off"}
    assert tokens(off, str(tmp_path / "accounts"), "a", "secret") == {"loaded": "secret"}
    assert (tmp_path / "accounts.key").exists()


def test_a_locked_keyring_is_told_and_waited_for_by_nobody(tmp_path: Path) -> None:
    with desktop(tmp_path) as there:
        path = str(tmp_path / "accounts")
        assert tokens(there.environ, path, "a", "secret") == {"loaded": "secret"}
        there.lock()
        started = time.monotonic()
        read, written = tokens(there.environ, path, "a"), tokens(there.environ, str(tmp_path / "new"), "a", "secret")
        assert time.monotonic() - started < 20
        assert "unlock it, or remove the file and log in again" in read["problem"]
        assert "unlock it, or do without it: DOVETAIL_KEYRING=off" in written["problem"]
        assert not (tmp_path / "new").exists()


def test_a_keyring_that_never_answers(tmp_path: Path) -> None:
    with desktop(tmp_path) as there:
        path = str(tmp_path / "accounts")
        assert tokens(there.environ, path, "a", "secret") == {"loaded": "secret"}
        there.freeze()
        for words in ((path, "a"), (str(tmp_path / "new"), "a", "secret")):
            said = tokens(there.environ, *words, seconds=2)
            assert "The system's keyring gave no answer within 2 s: unlock it, or" in said["problem"]
        assert not (tmp_path / "new").exists()


def test_a_bus_that_never_answers_is_none(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "bus"))
        silent.listen()
        environ = {**surroundings(tmp_path), "DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path / 'bus'}"}
        assert tokens(environ, str(tmp_path / "accounts"), "a", "secret") == {"loaded": "secret"}
        assert (tmp_path / "accounts.key").exists()
