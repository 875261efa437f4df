"""Private files: readable by their owner only, written atomically, with locks between processes."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

LOCK_TIMEOUT = 5.0
"""Seconds to wait for another process that has its turn; each of them writes one small file and is done."""

_POLL = 0.002

MAX_BYTES = 64_000_000
"""Of a file that is read at once."""
_NOT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class FileUnusable(Exception):
    """A file or folder of the user cannot be created, read, written or locked."""


def private_folder(folder: Path) -> None:
    """Make a folder, and those above it, that nobody else can look into."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise FileUnusable(f"The folder {folder} cannot be made: {problem.strerror}") from problem


def check_private_folder(folder: Path) -> None:
    """Refuse a folder that is not there, is not the user's, or that others can look into."""
    if os.name != "posix":
        return
    try:
        status = folder.lstat()
    except OSError as problem:
        raise FileUnusable(f"The folder {folder} cannot be used: {problem.strerror}") from problem
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise FileUnusable(f"The folder {folder} is not private: see to it that only you can use it (chmod 700)")


def read_file(path: Path) -> bytes | None:
    """Read a file; None if there is no such file."""
    try:
        # A link to a device would be read for ever, and one to a pipe waited for; neither is a file of ours.
        with open(os.open(path, os.O_RDONLY | _NOT_WAITING), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
                raise FileUnusable(f"{path} cannot be read: it is no file, or has more than {MAX_BYTES} bytes")
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise FileUnusable(f"{path} cannot be read: {problem.strerror}") from problem


def check_only_owner_writes(path: Path) -> None:
    """Refuse a file that others on this machine can write, or could have put there; one that is not there is fine."""
    if os.name != "posix":
        return
    for each, forbidden in ((path, 0o022), (path.parent, 0o002)):
        try:
            status = each.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as problem:
            raise FileUnusable(f"{each} cannot be read: {problem.strerror}") from problem
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        if status.st_uid not in (os.geteuid(), 0) or (status.st_mode & forbidden and not sticky):
            raise FileUnusable(f"Others on this machine can write {each}: see to it that only you can (chmod go-w)")


def write_private(path: Path, content: bytes) -> None:
    """Put a file in place as a whole: whoever reads it finds the old or the new one, and only the user can."""
    _write(path, content, 0o600, os.replace)


def write_shared(path: Path, content: bytes) -> None:
    """Put a file in place as a whole, for everybody to read."""
    _write(path, content, 0o644, os.replace)


def create_private(path: Path, content: bytes) -> bool:
    """Put a file in place unless there is one: of two who do so at once, the first one's stays. Whether it is ours."""
    try:
        _write(path, content, 0o600, os.link)
    except FileExistsError:
        return False
    return True


@contextlib.contextmanager
def file_lock(path: Path, patience: float = LOCK_TIMEOUT) -> Generator[None]:
    """Hold the lock of a file that exists for nothing else, against other threads and processes."""
    private_folder(path.parent)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as problem:
        raise FileUnusable(f"{path} cannot be opened: {problem.strerror}") from problem
    try:
        acquire_lock(handle, path, patience)
        yield
    finally:
        os.close(handle)  # which ends the lock


def acquire_lock(handle: int, path: Path, patience: float = LOCK_TIMEOUT) -> None:
    """Lock an open file; `FileUnusable` if another process holds the lock for too long."""
    end = time.monotonic() + patience
    while not try_lock(handle):
        if time.monotonic() > end:
            raise FileUnusable(f"Another process has not let go of {path}")
        time.sleep(_POLL)


if sys.platform == "win32":
    import msvcrt

    _FAR = 0x7FFF_0000  # beyond what is ever written, since a locked byte cannot be read by others

    def try_lock(handle: int) -> bool:
        """Lock an open file if no other process has locked it; whether that succeeded."""
        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def release_lock(handle: int) -> None:
        """Release the lock of an open file."""
        os.lseek(handle, _FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def try_lock(handle: int) -> bool:
        """Lock an open file if no other process has locked it; whether that succeeded."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release_lock(handle: int) -> None:
        """Release the lock of an open file."""
        fcntl.flock(handle, fcntl.LOCK_UN)


def _write(path: Path, content: bytes, mode: int, into_place: Callable[[Path, Path], None]) -> None:
    private_folder(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        into_place(draft, path)
    except FileExistsError:
        raise
    except OSError as problem:
        raise FileUnusable(f"{path} cannot be written: {problem.strerror}") from problem
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
