"""Properties of file descriptors: which of them the event loop can poll, and how much a pipe holds."""

from __future__ import annotations

import contextlib
import os
import stat
import sys

PIPE_SIZE = 64 * 1024
"""Bytes that a pipe holds by default; a read that returns this many has found it full."""

_ENLARGED_SIZE = 1024 * 1024


def pollable(fd: int) -> bool:
    """True if the event loop can wait for this descriptor, and non-blocking mode affects nobody else.

    That mode belongs to the open file, not to the descriptor: where stderr is the same pipe (`2>&1`), whatever is
    logged would fail with EAGAIN as soon as the pipe is full.
    """
    if sys.platform == "win32":
        return False
    status = os.fstat(fd)
    return (stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)) and not _is_stderr(status)


def _is_stderr(status: os.stat_result) -> bool:
    try:
        return os.path.samestat(status, os.fstat(2))
    except OSError:
        return False


def enlarge_pipe(fd: int) -> None:
    """Make a pipe larger, where the system allows it.

    Only for a pipe that turns out to be too small: Linux grants a user so many pages for all pipes together.
    """
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < _ENLARGED_SIZE:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _ENLARGED_SIZE)


def unread_bytes(fd: int) -> int:
    """Bytes in a pipe, given its write end, that no process has read; 0 where the system cannot tell."""
    if sys.platform != "linux":
        return 0
    import fcntl
    import struct
    import termios

    try:
        return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, struct.pack("i", 0)))[0]
    except OSError:
        return 0
