"""Ending a whole process group, also when we ourselves are killed.

POSIX only in both respects; on Windows the child alone is ended, and only when we live to do it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

# The shell waits for its input to end. A line means that all is well; the end of file without one means
# that we were killed: then the group gets the time to see its own end of file, and is ended.
_SCRIPT = """
trap '' INT TERM HUP
if read -r _; then exit 0; fi
sleep 1; kill -TERM -"$1" 2>/dev/null || exit 0
sleep 2; kill -KILL -"$1" 2>/dev/null
"""


class Guardian:
    """A small shell that outlives us and ends the group we started if we cannot."""

    def __init__(self, shell: subprocess.Popen[bytes]) -> None:
        self._shell = shell

    @classmethod
    def watch(cls, group: int) -> Guardian | None:
        """Watch over a process group; None where there is no POSIX shell."""
        if sys.platform == "win32":
            return None
        null = subprocess.DEVNULL
        try:
            shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "dovetail-guardian", str(group)],
                stdin=subprocess.PIPE,
                stdout=null,
                stderr=null,
                start_new_session=True,
            )
        except OSError:
            return None
        return cls(shell)

    def dismiss(self) -> None:
        """The group has ended: nothing is left to watch."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._shell.communicate(b"\n", timeout=5)


def end_group(process: subprocess.Popen[bytes], *, forced: bool) -> None:
    """Send the child and everything it started the signal to end."""
    if sys.platform == "win32":
        process.terminate()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL if forced else signal.SIGTERM)
