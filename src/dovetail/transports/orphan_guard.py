"""Termination of a child's process group, also when this process is killed.

Both need POSIX. On Windows only the child itself is terminated, and not if this process is killed. On Linux processes
that have left the group are terminated too (`process_tree`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

from .process_tree import MARK

# The shell reads its stdin. A line means that the group has ended; end of file without a line means that this process
# was killed: then the group gets the time to react to its own end of file, and is terminated. So are the processes that
# have the mark of the server in their environment.
_SCRIPT = """
trap '' INT TERM HUP
if read -r _; then exit 0; fi
group=$1 mark=$2
end() {
    kill "-$1" "-$group" 2>/dev/null; ended=$?
    for file in $(grep -lsaF "$mark" /proc/[0-9]*/environ 2>/dev/null); do
        file=${file#/proc/}; kill "-$1" "${file%/environ}" 2>/dev/null && ended=0
    done
    return $ended
}
sleep 1; end TERM || exit 0
sleep 2; end KILL
exit 0
"""


class OrphanGuard:
    """A small shell that outlives this process and terminates a process group that it left behind."""

    def __init__(self, shell: subprocess.Popen[bytes]) -> None:
        self._shell = shell

    @classmethod
    def watch(cls, group: int, mark: str) -> OrphanGuard | None:
        """Start the shell for a process group, and for processes with this mark; None where there is no POSIX shell."""
        if sys.platform == "win32":
            return None
        null = subprocess.DEVNULL
        try:
            shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "dovetail-orphan-guard", str(group), f"{MARK}={mark}"],
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
