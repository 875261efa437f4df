"""Reading what a person types, so that it can be given up at any time."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import sys
import threading
from collections.abc import AsyncGenerator, Generator

from .progress import Screen

_CHUNK = 4096


class Closed(Exception):
    """The person ended the input (Ctrl-D)."""


class Terminal:
    """Asks on stderr and reads stdin, one question at a time.

    Reading goes through the loop, not through `input`: Ctrl-C, or a server that takes its question back,
    must be able to stop it.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._input = sys.stdin.fileno()
        self._decoder = codecs.getincrementaldecoder(sys.stdin.encoding or "utf-8")("replace")
        self._read = ""
        self._turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def question(self) -> AsyncGenerator[None]:
        """The time that one question has the terminal for itself.

        What was typed before it is dropped: nobody agrees to what they have not read.
        """
        async with self._turn:
            self._screen.hide()
            self._read = ""
            forget_typed(self._input)
            try:
                yield
            finally:
                self._screen.show()

    def say(self, text: str = "") -> None:
        """Show a line."""
        self._screen.line(text)

    async def ask(self, prompt: str) -> str:
        """One line, without its end and the blanks around it."""
        from dovetail.cli.output import printable

        self._screen.write(printable(prompt))
        while "\n" not in self._read:
            chunk = await _chunk(self._input)
            if not chunk:
                self._screen.write("\n")
                raise Closed
            self._read += self._decoder.decode(chunk).replace("\r", "")
        line, self._read = self._read.split("\n", 1)
        return line.strip()


def someone_there() -> bool:
    """Whether a person sits at the terminal who can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


async def _chunk(descriptor: int) -> bytes:
    """What was typed, as soon as there is some; empty at the end of input."""
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
    """The same where the loop cannot wait for a console (Windows); a thread of ours keeps no process alive."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        chunk = os.read(descriptor, _CHUNK)
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if typed.done() else typed.set_result(chunk))

    threading.Thread(target=read, daemon=True).start()
    return await typed


def forget_typed(descriptor: int) -> None:
    """Drop what was typed and not read yet: nobody agrees to what they have not seen."""
    try:
        import termios
    except ImportError:
        return
    with contextlib.suppress(termios.error):
        termios.tcflush(descriptor, termios.TCIFLUSH)


@contextlib.contextmanager
def unseen() -> Generator[None]:
    """While it lasts, what is typed is not shown; Ctrl-C is a signal all the same."""
    try:
        import termios
    except ImportError:  # a console of Windows shows what is typed
        yield
        return
    where = sys.stdin.fileno()
    before = termios.tcgetattr(where)
    changed = list(before)
    changed[3] &= ~termios.ECHO
    termios.tcsetattr(where, termios.TCSANOW, changed)
    try:
        yield
    finally:
        termios.tcsetattr(where, termios.TCSANOW, before)
