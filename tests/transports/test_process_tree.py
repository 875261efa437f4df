"""Processes that have left the group of their server are found, by their parents and by the mark."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.transports.orphan_guard import OrphanGuard
from dovetail.transports.process import ProcessChannel
from dovetail.transports.process_tree import MARK, ProcessTree
from tests.support.raw import PATIENCE, alive, eventually
from tests.transports.collector import Collector

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs the /proc of Linux")

SLEEPER = "import time; time.sleep(600)"
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN); " + SLEEPER

DETACHED = """
import os, subprocess, sys
print(subprocess.Popen([sys.executable, "-Sc", {code!r}], start_new_session=True, env={env}).pid, flush=True)
sys.stdin.read()
"""

DAEMON = """
import os, subprocess, sys
start = "subprocess.Popen([sys.executable, '-Sc', {code!r}], start_new_session=True, stdout=-3)"
code = "import subprocess, sys; print(" + start + ".pid)"
os.write(1, subprocess.check_output([sys.executable, "-Sc", code], start_new_session=True))
sys.stdin.read()
"""

PROGRAMS = {
    "a child in a session of its own": DETACHED.format(code=SLEEPER, env="None"),
    "one that ignores SIGTERM": DETACHED.format(code=STUBBORN, env="None"),
    "one with an empty environment": DETACHED.format(code=SLEEPER, env="{}"),
    "a daemon, whose parent has exited": DAEMON.format(code=SLEEPER),
}


def pid_in(seen: Collector) -> int:
    """The process id that the server has printed."""
    line = seen.lines[0]
    assert isinstance(line, bytes)
    return int(line)


@pytest.fixture
def others() -> Iterator[list[int]]:
    """Processes that a test has started indirectly: none of them outlives it."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.attack("L9")
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
async def test_a_closed_channel_leaves_no_process_behind(program: str, others: list[int]) -> None:
    channel, seen = ProcessChannel([sys.executable, "-S", "-c", program]), Collector()
    channel.open(seen)
    await seen.count(1)
    others.append(pid := pid_in(seen))
    assert alive(pid)
    await channel.close()
    eventually(lambda: not alive(pid), "the process has ended")


@pytest.mark.attack("L9")
async def test_a_daemon_of_a_server_that_was_killed_is_ended_too(others: list[int]) -> None:
    channel, seen = ProcessChannel([sys.executable, "-S", "-c", DAEMON.format(code=SLEEPER)]), Collector()
    channel.open(seen)
    await seen.count(1)
    others.append(pid := pid_in(seen))
    os.kill(channel.pid or 0, signal.SIGKILL)
    await seen.end()
    await channel.close()
    eventually(lambda: not alive(pid), "the process has ended")


CLIENT = """
import asyncio, os, sys
sys.path.insert(0, {tests!r})
from dovetail.transports.process import ProcessChannel

class Receiver:
    def received(self, line): os.write(1, line + b"\\n")
    def overlong(self, line): ...
    def failed(self, id, problem): ...
    def disconnected(self, reason): ...

async def main():
    channel = ProcessChannel([sys.executable, "-S", "-c", {program!r}])
    channel.open(Receiver())
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.attack("L9")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["a child in a session of its own", "one that ignores SIGTERM"])
def test_a_killed_client_leaves_no_process_behind(name: str, others: list[int]) -> None:
    code = CLIENT.format(tests=str(Path(__file__).parents[2]), program=PROGRAMS[name])
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        others.append(pid := int(client.stdout.readline()))
        assert alive(pid)
        client.kill()
        client.wait(PATIENCE)
    eventually(lambda: not alive(pid), "the process has ended", 20)


def test_processes_of_others_are_left_alone(others: list[int]) -> None:
    tree = ProcessTree()
    env = {**os.environ, MARK: ProcessTree().mark}
    with subprocess.Popen([sys.executable, "-Sc", SLEEPER], env=env, start_new_session=True) as other:
        others.append(other.pid)
        with subprocess.Popen([sys.executable, "-Sc", SLEEPER], start_new_session=True) as server:
            tree.remember(server.pid)
            assert tree.strays() == []
            assert not tree.signal(signal.SIGTERM)
            assert other.poll() is None and server.poll() is None
            server.kill()
        other.kill()


def test_a_process_with_the_id_of_an_earlier_one_is_another() -> None:
    code = textwrap.dedent(DETACHED.format(code=SLEEPER, env="{}"))
    with subprocess.Popen(
        [sys.executable, "-Sc", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        tree = ProcessTree()
        tree.remember(server.pid)
        assert tree.strays() == [pid]
        [seen] = tree._seen.values()
        tree._seen = {pid: type(seen)(pid, seen.parent, seen.group, b"1")}
        assert tree.strays() == []
        os.kill(pid, signal.SIGKILL)
        server.kill()


async def test_closing_takes_no_longer_where_nothing_was_left_behind() -> None:
    channel = ProcessChannel(["cat"])
    channel.open(Collector())
    started = asyncio.get_running_loop().time()
    await channel.close()
    assert asyncio.get_running_loop().time() - started < 1.5, "no grace period was waited for"


def test_a_guard_is_not_one_of_the_processes_that_it_ends() -> None:
    tree = ProcessTree()
    with subprocess.Popen([sys.executable, "-Sc", SLEEPER], start_new_session=True) as server:
        guard = OrphanGuard.watch(server.pid, tree.mark)
        assert guard is not None
        assert tree.strays() == []
        guard.dismiss()
        server.kill()
