"""Tasks that were left running, kept in the user's folder so that a command or a host finds them again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from dovetail.policy.user_file import UserFile
from dovetail.userdata.folders import user_folder

MAX_SAVED_TASKS = 200
"""Tasks that are kept for a user; beyond it the oldest are dropped."""

MAX_SAVED_SECONDS = 30 * 86_400.0
"""Seconds for which a task is kept whose server does not say how long it keeps it."""


class SavedTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task of the user at a server."""

    reference: str
    """The text of `task.reference`, which is as secret as the task's id."""
    tool: str
    target: str
    """The TARGET of the command that left it, or the key of a host's server."""
    at: float
    """When it was created, in seconds since the epoch."""
    expires: float
    """When the server drops it, as far as it is known, in seconds since the epoch."""
    launch: str | None = None
    """Of a host: the digest of how its server was started. An id is not told to another server of the same name."""


class SavedTasks:
    """The file with the user's tasks, private to them; several processes read and change it.

    Reading and changing it waits for the disk. `LocalError` if the file cannot be used.
    """

    def __init__(self, folder: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._file = UserFile[list[SavedTask]]((folder or user_folder()) / "tasks.json", list[SavedTask], [])

    def all(self) -> list[SavedTask]:
        """All tasks that have not expired, oldest first."""
        return [task for task in self._file.read() if task.expires > self._now()]

    def add(self, task: SavedTask) -> None:
        """Keep a task, in place of what was kept under its reference."""

        def added(kept: list[SavedTask]) -> list[SavedTask]:
            others = [each for each in kept if each.reference != task.reference and each.expires > self._now()]
            return [*others, task][-MAX_SAVED_TASKS:]

        self._file.change(added)

    def remove(self, reference: str) -> None:
        """Drop a task that has ended, or that its server does not have any more."""
        if any(each.reference == reference for each in self._file.read()):
            self._file.change(lambda kept: [each for each in kept if each.reference != reference])


def expiry(at: float, ttl: float | None) -> float:
    """When a task that was created at a time expires; `ttl` is what its server says."""
    return at + (MAX_SAVED_SECONDS if ttl is None else min(ttl, MAX_SAVED_SECONDS))
