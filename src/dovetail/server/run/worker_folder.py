"""Folder that the workers of one run share, for files that are of no use to any other run.

The parent removes it at the end. If the parent was killed, the workers do; if they were killed as well, the next run
does. A lock on a file in it, which every process of the run inherits, shows that the folder is in use.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

PREFIX = "dovetail-workers-"
_LOCK = "lock"
_NEW_LOCK = "lock.new"


class WorkerFolder:
    """A folder that only its user can enter, locked until the last process that inherited it has ended."""

    def __init__(self) -> None:
        _remove_stale()
        self.path = tempfile.mkdtemp(prefix=PREFIX)
        self._parent = os.getpid()
        self._lock = os.open(os.path.join(self.path, _NEW_LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _try_lock(self._lock)
        # Renamed when it is locked: under its final name an unlocked file means that the folder is stale.
        os.rename(os.path.join(self.path, _NEW_LOCK), os.path.join(self.path, _LOCK))

    def remove(self) -> None:
        """Remove the folder with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.close(self._lock)

    def remove_if_orphaned(self) -> None:
        """In a worker that ends: remove the folder if the parent was killed, which would have removed it."""
        if os.getppid() != self._parent:
            shutil.rmtree(self.path, ignore_errors=True)


def _remove_stale() -> None:
    """Remove the folders of earlier runs of this user whose processes were all killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # it is being created, or removed
        try:
            if _try_lock(lock):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _try_lock(file: int) -> bool:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
