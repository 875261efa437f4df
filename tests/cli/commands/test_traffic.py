"""`dovetail traffic` in a second terminal: only of this user's hosts, redacted, and it ends with the host."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.chat.at_host import AtHost
from tests.cli.invoke import COMMAND, dovetail, environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets and pseudo-terminals are POSIX's")


@pytest.fixture
def runtime() -> Generator[str]:
    """A runtime folder with a short path, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="dt") as folder:
        yield folder


def traffic(runtime: str, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, "traffic", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(XDG_RUNTIME_DIR=runtime),
        stdin=subprocess.DEVNULL,
    )


def test_without_a_host_it_says_so(tmp_path: Path, runtime: str) -> None:
    done = dovetail("traffic", cwd=tmp_path, XDG_RUNTIME_DIR=runtime)
    assert done.code == 4 and "no `dovetail host` of yours is running" in done.err


def test_a_running_host_is_watched_from_a_second_terminal(tmp_path: Path, runtime: str) -> None:
    with AtHost(tmp_path, "--allow", "desk", XDG_RUNTIME_DIR=runtime) as terminal:
        terminal.ready()
        (socket,) = (Path(runtime) / "dovetail").glob("host-*.sock")
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        terminal.say("/call say text=password=hunter2")
        terminal.until("| password=")
        seen = traffic(runtime, "tools/call")
        assert "desk       -> tools/call say" in seen.stdout and " ok " in seen.stdout, seen
        number = seen.stdout.split()[0]
        shown = traffic(runtime, "--number", number)
        assert '"name": "say"' in shown.stdout and "hunter2" not in shown.stdout, shown
        facts = [json.loads(line) for line in traffic(runtime, "--format", "json", "tools/call").stdout.splitlines()]
        assert [(each["number"], each["subject"], each["outcome"]) for each in facts] == [(int(number), "say", "ok")]
        follow = [*COMMAND, "traffic", "--follow", "desk"]
        with subprocess.Popen(
            follow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(XDG_RUNTIME_DIR=runtime)
        ) as watching:
            assert watching.stdout is not None and watching.stderr is not None
            while "tools/call say" not in watching.stdout.readline():
                pass
            terminal.say("/call add a=41")
            terminal.until("| 42")
            while "tools/call add" not in (line := watching.stdout.readline()):
                assert line, "it ended too early"
            assert terminal.leave() == 0
            assert watching.wait(30) == 0
            assert "The host has ended." in watching.stderr.read()
    assert not socket.exists()


def test_a_folder_that_others_can_use_is_not_used(tmp_path: Path, runtime: str) -> None:
    folder = Path(runtime) / "dovetail"
    folder.mkdir()
    os.chmod(folder, 0o777)
    with AtHost(tmp_path, XDG_RUNTIME_DIR=runtime) as terminal:
        terminal.ready()
        assert list(folder.iterdir()) == []
        assert terminal.leave() == 0


def test_several_hosts_are_told_apart_and_the_socket_of_a_dead_one_is_removed(tmp_path: Path, runtime: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        AtHost(tmp_path / "a", XDG_RUNTIME_DIR=runtime) as first,
        AtHost(tmp_path / "b", XDG_RUNTIME_DIR=runtime) as second,
    ):
        first.ready()
        second.ready()
        done = traffic(runtime)
        assert done.returncode == 1 and "several hosts are running; name one with --host PID" in done.stderr
        assert str(first.process.pid) in done.stderr and str(second.process.pid) in done.stderr
        assert "tools/list" in traffic(runtime, "--host", str(second.process.pid)).stdout
        first.process.kill()
        first.process.wait()
        assert "tools/list" in traffic(runtime).stdout
        assert len(list((Path(runtime) / "dovetail").glob("host-*.sock"))) == 1
