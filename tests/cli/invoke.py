"""Running the command as a user would: a process, with pipes or with a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
DESK = str(Path(__file__).parent / "programs" / "desk.py")
FILM = str(Path(__file__).parent / "programs" / "film.py")
COMMAND = [sys.executable, "-m", "dovetail.cli"]
PATIENCE = 60.0

_WITH_TERMINAL = (
    "import fcntl, os, sys, termios;fcntl.ioctl(0, termios.TIOCSCTTY, 0);os.execv(sys.argv[1], sys.argv[1:])"
)


def environment(**more: str) -> dict[str, str]:
    """This process's, with the tree that is under test first."""
    paths = [str(ROOT / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "TERM": "xterm", **more}


class Done:
    """What a command left: its exit code and its output."""

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.code = done.returncode
        self.raw = done.stdout
        self.out = done.stdout.decode(errors="replace")
        self.err = done.stderr.decode(errors="replace")

    @property
    def result(self) -> Any:
        """The result that a script reads; nothing else may stand on stdout."""
        assert self.code == 0, self.err
        read = json.loads(self.out)
        assert list(read) == ["result"]
        return read["result"]

    @property
    def error(self) -> dict[str, Any]:
        """The error that a script reads: the last line of stderr."""
        read = json.loads(self.err.splitlines()[-1])
        assert list(read) == ["error"]
        assert self.out == ""
        return read["error"]


def dovetail(*words: str, stdin: str = "", cwd: Path | None = None, **env: str) -> Done:
    """Run the command with pipes."""
    return Done(
        subprocess.run(
            [*COMMAND, *words],
            input=stdin.encode(),
            capture_output=True,
            timeout=PATIENCE,
            env=environment(**env),
            cwd=cwd,
        )
    )


class AtTerminal:
    """The command with a terminal of its own; its stdout may be a pipe."""

    def __init__(self, *words: str, stdout: bool = True, columns: int = 100, **env: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WITH_TERMINAL, *COMMAND, *words],
            stdin=slave,
            stdout=slave if stdout else subprocess.PIPE,
            stderr=slave,
            start_new_session=True,
            env=environment(COLUMNS=str(columns), **env),
        )
        os.close(slave)
        self.seen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._master)

    def until(self, text: str) -> str:
        """Read until a text has appeared; what stood before and in it is returned and done with."""
        while text not in self.seen:
            assert self._read(), f"{text!r} did not appear in {self.seen!r}"
        index = self.seen.index(text) + len(text)
        found, self.seen = self.seen[:index], self.seen[index:]
        return found

    def type(self, text: str, *, enter: bool = True) -> None:
        os.write(self._master, text.encode() + (b"\n" if enter else b""))

    def answer(self, prompt: str, text: str) -> str:
        """Wait for a prompt and type the answer."""
        seen = self.until(prompt)
        self.type(text)
        return seen

    def interrupt(self) -> None:
        """Press Ctrl-C: the terminal makes a signal of it."""
        self.type("\x03", enter=False)

    def end(self) -> tuple[int, str]:
        """The exit code and what was still printed."""
        while self._read():
            pass
        return self.process.wait(PATIENCE), self.seen.replace("\r\n", "\n")

    def output(self) -> str:
        """What went to stdout, where that is a pipe."""
        assert self.process.stdout is not None
        return self.process.stdout.read().decode()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def _read(self) -> bool:
        deadline = time.monotonic() + PATIENCE
        readable, _, _ = select.select([self._master], [], [], max(deadline - time.monotonic(), 0))
        assert readable, f"nothing more appeared after {self.seen!r}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux: the other side of the terminal is closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)
