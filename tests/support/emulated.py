"""A program at a pseudo-terminal, with an emulated screen."""

from __future__ import annotations

import os
import re
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import pyte

_EDGE = re.compile(r"\n *(?:\| )?")

PATIENCE = 30.0
"""How long to wait for what must appear; only a test that fails waits that long."""

_WITH_TERMINAL = (
    "import fcntl, os, sys, termios;fcntl.ioctl(0, termios.TIOCSCTTY, 0);os.execv(sys.argv[1], sys.argv[1:])"
)


class _Screen(pyte.HistoryScreen):
    """Answers where the cursor is, as terminals do."""

    def __init__(self, columns: int, lines: int, reply: Callable[[str], None]) -> None:
        super().__init__(columns, lines, history=10_000, ratio=0.5)
        self._reply = reply

    def write_process_input(self, data: str) -> None:
        self._reply(data)

    def select_graphic_rendition(self, *attrs: int) -> None:
        """pyte does not know dim text (SGR 2): it is kept as blinking text, which no program here writes."""
        numbers, known = list(attrs), list[int]()
        while numbers:
            number = numbers.pop(0)
            if number in (38, 48):  # a colour, whose numbers are no attributes
                size = {5: 2, 2: 4}.get(numbers[0] if numbers else 0, 0)
                known += [number, *numbers[:size]]
                del numbers[:size]
            else:
                known += {2: [5], 22: [22, 25]}.get(number, [number])
        super().select_graphic_rendition(*known)


def emulated_screen(columns: int, lines: int, reply: Callable[[str], None] = lambda _: None) -> pyte.Screen:
    """A screen as `Emulated` has; `reply` gets what a terminal answers to a program."""
    return _Screen(columns, lines, reply)


class Emulated:
    """A command in a terminal of a given size; `screen` is what stands there now, `transcript` what scrolled by too."""

    def __init__(self, command: Sequence[str], env: dict[str, str], columns: int = 80, lines: int = 24) -> None:
        import fcntl
        import pty
        import termios

        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        sized = {key: value for key, value in env.items() if key not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WITH_TERMINAL, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**sized, "TERM": "xterm-256color"},
        )
        self._slave = slave
        self._screen = _Screen(columns, lines, lambda data: self.type(data))
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self.on_output: Callable[[], None] = lambda: None
        """Called after each piece of output is on the screen."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._slave)
        os.close(self._master)

    @property
    def grid(self) -> pyte.Screen:
        """The screen with colours and the cursor; dim text is marked as blinking."""
        return self._screen

    @property
    def screen(self) -> str:
        """The lines that stand on the screen, without blanks at their ends."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def transcript(self) -> str:
        """What scrolled off the top, and the screen."""
        above = [_text(line, self._screen.columns) for line in self._screen.history.top]
        return "\n".join([*above, self.screen])

    @property
    def flowing(self) -> str:
        """What scrolled by without the ends of its lines, and without the margins of lines that go on."""
        return _EDGE.sub("", self.transcript)

    def settings(self) -> int:
        """How the terminal treats what is typed: the local flags of termios."""
        import termios

        return termios.tcgetattr(self._slave)[3]

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def until(self, *texts: str) -> str:
        """Wait until all of the texts stand on the screen, perhaps over the edge of a line; what the screen then is."""
        return self.until_true(lambda: all(self._shows(text) for text in texts), repr(texts))

    def until_seen(self, *texts: str) -> None:
        """Wait until all of the texts have been there, also if they have scrolled off since."""
        self.until_true(lambda: all(text in self.transcript for text in texts), f"{texts!r} to have been there")

    def _shows(self, text: str) -> bool:
        # A line that goes on may have been broken in a word, or at a blank.
        return text in self.screen or any(text in _EDGE.sub(joint, self.screen) for joint in ("", " "))

    def until_at_cursor(self, text: str) -> str:
        """Wait until the line of the cursor begins with a text; a status line may stand below it."""
        return self.until_true(lambda: self._cursor_line().startswith(text), f"{text!r} on the line of the cursor")

    def _cursor_line(self) -> str:
        return self._screen.display[self._screen.cursor.y]

    def until_gone(self, text: str) -> str:
        """Wait until a text does not stand on the screen."""
        return self.until_true(lambda: text not in self.screen, f"{text!r} to go")

    def until_true(self, holds: Callable[[], bool], what: str) -> str:
        """Wait until something holds of the screen."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            ended = self.process.poll() is not None
            if (not self._read(0.1) and ended) or time.monotonic() > deadline:
                raise AssertionError(f"waited for {what}, and this was there:\n{self.transcript}")
        return self.screen

    def answer(self, prompt: str, keys: str) -> str:
        """Wait for a prompt and type."""
        seen = self.until(prompt)
        self.type(keys)
        return seen

    def read_for(self, seconds: float) -> None:
        """Show what the program writes in the next seconds."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not self._read(left) and self.process.poll() is not None:
                return

    def end(self) -> int:
        """Wait until the program has ended; its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read(0.02)
        while self._read(0):
            pass
        return self.process.wait(0)

    def _read(self, patience: float) -> bool:
        readable, _, _ = select.select([self._master], [], [], max(patience, 0))
        if not readable:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux: the other side of the terminal is closed
            return False
        self.raw += data
        self._stream.feed(data)
        self.on_output()
        return bool(data)


def _text(line: Any, columns: int) -> str:
    return "".join(line[column].data for column in range(columns)).rstrip()
