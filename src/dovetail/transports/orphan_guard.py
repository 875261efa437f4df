"""Termination of a child's process group, also when this process is killed.

Both need POSIX. On Windows only the child itself is terminated, and not if this process is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

# The shell reads its stdin. A line means that the group has ended; end of file without a line means that this process
# was killed: then the group gets the time to react to its own end of file, and is terminated.
_SCRIPT = """
trap '' INT TERM HUP
if read -r _; then exit 0; fi
sleep 1; kill -TERM -"$1" 2>/dev/null || exit 0
sleep 2; kill -KILL -"$1" 2>/dev/null
"""


class OrphanGuard:
    """A small shell that outlives this process and terminates a process group that it left behind."""

    def __init__(self, shell: subprocess.Popen[bytes]) -> None:
        self._shell = shell

    @classmethod
    def watch(cls, group: int) -> OrphanGuard | None:
        """Start the shell for a process group; None where there is no POSIX shell."""
        if sys.platform == "win32":
            return None
        null = subprocess.DEVNULL
        try:
            shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "dovetail-orphan-guard", str(group)],
                stdin=subprocess.PIPE,
                stdout=null,
                stderr=null,
                start_new_session=True,
            )
        except OSError:
            return None
        return cls(shell)

    def dismiss(self) -> None:
        """End the shell, because the group has ended."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._shell.communicate(b"\n", timeout=5)


def end_group(process: subprocess.Popen[bytes], *, forced: bool) -> None:
    """Send the signal to terminate to the child and everything that it started."""
    if sys.platform == "win32":
        process.terminate()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL if forced else signal.SIGTERM)
