"""Processes that a server has started and that have left its process group, as daemons and detached programs do.

They are found by their parents while the server runs, and by a variable in their environment also afterwards. Both need
the /proc of Linux. Elsewhere nothing is found, and only the process group is terminated.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import msgspec

MARK = "DOVETAIL_SERVER_PROCESS"
"""The variable that a server's processes inherit; its value is different for each server."""

_PROC = "/proc"


class _Process(msgspec.Struct, frozen=True):
    """One process; its start time tells it from a later one with the same id."""

    pid: int
    parent: int
    group: int
    start_time: bytes


class ProcessTree:
    """The processes of one server outside of its process group."""

    def __init__(self) -> None:
        self.mark = os.urandom(16).hex()
        self._entry = f"{MARK}={self.mark}".encode()
        self._group = 0
        self._seen: dict[int, _Process] = {}

    def remember(self, pid: int) -> None:
        """Remember the descendants of the server; called while it runs, for later they have another parent."""
        self._group = pid
        running = list(_processes())
        tree = {pid}
        # Parents are mostly listed before their children, so that one or two rounds are enough.
        while found := [each for each in running if each.parent in tree and each.pid not in tree]:
            tree.update(each.pid for each in found)
        self._seen = {each.pid: each for each in running if each.pid in tree and each.group != pid}

    def strays(self) -> list[int]:
        """The processes that run now: those that were remembered, and those with the mark."""
        return [
            each.pid
            for each in _processes()
            if each.group != self._group and (self._is_remembered(each) or self._is_marked(each.pid))
        ]

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal to every process that runs now; False if there is none."""
        strays = self.strays()
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return bool(strays)

    def _is_remembered(self, process: _Process) -> bool:
        seen = self._seen.get(process.pid)
        return seen is not None and seen.start_time == process.start_time

    def _is_marked(self, pid: int) -> bool:
        try:
            with open(f"{_PROC}/{pid}/environ", "rb") as file:
                return self._entry in file.read().split(b"\0")
        except OSError:
            return False


def _processes() -> Iterator[_Process]:
    """All processes but zombies."""
    try:
        names = os.listdir(_PROC)
    except OSError:
        return
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"{_PROC}/{name}/stat", "rb") as file:
                # The name of the program comes second, in parentheses, and may hold any character.
                fields = file.read().rpartition(b")")[2].split()
            if fields[0] != b"Z":
                yield _Process(int(name), int(fields[1]), int(fields[2]), fields[19])
        except (OSError, IndexError, ValueError):
            continue
