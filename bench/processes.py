"""A server process from the outside: its CPU clock, its memory, and what it complained about."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence


class DriverError(Exception):
    """The program under test did not do what the benchmark asked."""


def clean_environment() -> dict[str, str]:
    """The caller's environment without what changes how Python starts."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def process_cpu(argv: Sequence[str]) -> float:
    """Seconds of CPU that a command uses from start to end."""
    pid = os.posix_spawn(argv[0], list(argv), clean_environment())
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(argv)}")
    return usage.ru_utime + usage.ru_stime


def _cpu_of(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)


class Watched:
    """A child process whose output is read and whose stderr is kept."""

    def __init__(self, argv: Sequence[str], stdin: int = subprocess.DEVNULL) -> None:
        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            bufsize=0,
            env=clean_environment(),
        )

    def cpu(self) -> float:
        """Seconds of CPU the process used since it started, ended threads and all."""
        return _cpu_of(self.process.pid)

    def family_cpu(self) -> float:
        """The same with the child processes that it has now."""
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return sum(_cpu_of(one) for one in (pid, *map(int, file.read().split())))

    def settled_cpu(self) -> float:
        """The same, once the process is quiet: work done after an answer counts as well."""
        last = self.cpu()
        for _ in range(100):
            time.sleep(0.01)
            now = self.cpu()
            if now - last < 0.000_1:
                break
            last = now
        return self.cpu()

    def memory(self) -> int:
        """Bytes of memory resident now."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def complaint(self) -> str:
        """The end of what the process wrote to stderr."""
        self.stderr.seek(0)
        return self.stderr.read().decode(errors="replace")[-2000:]

    def ended(self, patience: float = 5) -> None:
        """Wait until the process has ended, by force after `patience` seconds."""
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()
        self.stderr.close()
