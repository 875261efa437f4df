"""Line input from the terminal that can be cancelled at any time."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractContextManager

from .progress import ProgressDisplay

_CHUNK = 4096


class InputClosed(Exception):
    """End of input (Ctrl-D)."""


class Terminal:
    """Prompts on stderr and reads stdin, one question at a time.

    Reading goes through the event loop, not through `input`, because Ctrl-C or a server that cancels its request
    must be able to stop it.
    """

    def __init__(self, display: ProgressDisplay) -> None:
        self._display = display
        self._input = sys.stdin.fileno()
        self._decoder = codecs.getincrementaldecoder(sys.stdin.encoding or "utf-8")("replace")
        self._read = ""
        self._turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def question(self) -> AsyncGenerator[None]:
        """Exclusive use of the terminal for one question.

        Input typed before it is discarded: it cannot be meant as an answer.
        """
        async with self._turn:
            self._display.hide()
            self._read = ""
            discard_typeahead(self._input)
            try:
                yield
            finally:
                self._display.show()

    def say(self, text: str = "") -> None:
        """Show a line."""
        self._display.line(text)

    async def prompt(self, prompt: str) -> str:
        """Read one line, stripped."""
        from dovetail.cli.output import printable

        self._display.write(printable(prompt))
        while "\n" not in self._read:
            chunk = await _chunk(self._input)
            if not chunk:
                self._display.write("\n")
                raise InputClosed
            self._read += self._decoder.decode(chunk).replace("\r", "")
        line, self._read = self._read.split("\n", 1)
        return line.strip()


def is_interactive() -> bool:
    """True if stdin and stderr are a terminal, so that the user can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


async def _chunk(descriptor: int) -> bytes:
    """Read what is available, waiting for some; empty at end of input."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    except NotImplementedError:
        return await _chunk_from_thread(descriptor)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, _CHUNK)


async def _chunk_from_thread(descriptor: int) -> bytes:
    """Read in a daemon thread, where the loop cannot wait for a console (Windows)."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        chunk = os.read(descriptor, _CHUNK)
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if typed.done() else typed.set_result(chunk))

    threading.Thread(target=read, daemon=True).start()
    return await typed


def discard_typeahead(descriptor: int) -> None:
    """Discard input that was typed but not read yet."""
    try:
        import termios
    except ImportError:
        return
    with contextlib.suppress(termios.error):
        termios.tcflush(descriptor, termios.TCIFLUSH)


def echo_off() -> AbstractContextManager[None]:
    """Turn echo off; Ctrl-C still sends a signal."""
    return _without(at_once=False)


def keys_at_once() -> AbstractContextManager[None]:
    """Turn echo off, and make each key readable at once, Enter as such; Ctrl-C still sends a signal."""
    return _without(at_once=True)


@contextlib.contextmanager
def _without(*, at_once: bool) -> Generator[None]:
    try:
        import termios
    except ImportError:  # a console of Windows shows what is typed
        yield
        return
    where = sys.stdin.fileno()
    before = termios.tcgetattr(where)
    changed = list(before)
    changed[3] &= ~termios.ECHO
    if at_once:
        changed[0] &= ~termios.ICRNL
        changed[3] &= ~termios.ICANON
        changed[6] = list(before[6])
        changed[6][termios.VMIN], changed[6][termios.VTIME] = 1, 0
    termios.tcsetattr(where, termios.TCSANOW, changed)
    try:
        yield
    finally:
        termios.tcsetattr(where, termios.TCSANOW, before)
