"""The guard ends a group of processes when we cannot, and does nothing otherwise."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dovetail.transports.orphan_guard import OrphanGuard, end_group
from tests.support.raw import PATIENCE, alive, eventually, group

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN); " + SLEEPER
FAMILY = f"import subprocess, sys; subprocess.Popen([sys.executable, '-Sc', {STUBBORN!r}]); " + SLEEPER


def start(code: str) -> subprocess.Popen[bytes]:
    """A process that leads a group of its own and is up and running."""
    process = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with start(SLEEPER) as process:
        yield process
        process.kill()


def shell_of(guard: OrphanGuard) -> subprocess.Popen[bytes]:
    return guard._shell


def abandon(guard: OrphanGuard) -> None:
    """What the kernel does when we are killed: our end of the pipe is closed."""
    stdin = shell_of(guard).stdin
    assert stdin is not None
    stdin.close()


def watch(process: subprocess.Popen[bytes]) -> OrphanGuard:
    guard = OrphanGuard.watch(process.pid, "none")
    assert guard is not None
    return guard


def test_a_dismissed_guard_exits_and_leaves_the_group_alone(process: subprocess.Popen[bytes]) -> None:
    guard = watch(process)
    guard.dismiss()
    assert not alive(shell_of(guard).pid)
    assert shell_of(guard).returncode == 0
    assert process.poll() is None


def test_a_guard_whose_process_is_gone_terminates_the_group(process: subprocess.Popen[bytes]) -> None:
    guard = watch(process)
    abandon(guard)
    assert process.wait(PATIENCE) == -signal.SIGTERM
    shell_of(guard).wait(PATIENCE)


def test_a_guard_kills_processes_that_ignore_sigterm() -> None:
    with start(FAMILY) as process:
        eventually(lambda: len(group(process.pid)) == 2, "both run")
        guard = watch(process)
        abandon(guard)
        process.wait(PATIENCE)
        eventually(lambda: not group(process.pid), "the whole group has ended")
        shell_of(guard).wait(PATIENCE)


def test_a_guard_exits_when_the_group_has_ended_already(process: subprocess.Popen[bytes]) -> None:
    guard = watch(process)
    process.kill()
    process.wait(PATIENCE)
    abandon(guard)
    assert shell_of(guard).wait(PATIENCE) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_guard_survives_the_signals_that_terminate_its_parent(process: subprocess.Popen[bytes], number: int) -> None:
    guard = watch(process)
    shell = shell_of(guard)
    eventually(lambda: _ignores(shell.pid, number), "the shell has set its traps")
    shell.send_signal(number)
    assert os.getpgid(shell.pid) != os.getpgid(0), "nor is it in our group"
    guard.dismiss()
    assert shell.returncode == 0


def _ignores(pid: int, number: int) -> bool:
    with open(f"/proc/{pid}/status") as file:
        mask = next(line for line in file if line.startswith("SigIgn"))
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)


def test_a_guard_inherits_no_descriptor(process: subprocess.Popen[bytes]) -> None:
    reading, writing = os.pipe()
    guard = watch(process)
    os.close(writing)
    assert os.read(reading, 1) == b"", "nobody else holds the pipe open"
    os.close(reading)
    guard.dismiss()


@pytest.mark.parametrize("forced", [False, True])
def test_end_group_terminates_every_process_of_the_group(forced: bool) -> None:
    with start(FAMILY.replace("15, signal.SIG_IGN", "15, signal.SIG_DFL")) as process:
        eventually(lambda: len(group(process.pid)) == 2, "both run")
        end_group(process, forced=forced)
        assert process.wait(PATIENCE) == -(signal.SIGKILL if forced else signal.SIGTERM)
        eventually(lambda: not group(process.pid), "the whole group has ended")
        end_group(process, forced=forced)
