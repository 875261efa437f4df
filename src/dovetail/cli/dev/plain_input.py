"""Lines of stdin for `dovetail dev` without a terminal, read in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncGenerator

from dovetail.cli.terminal.terminal import InputClosed


class PlainInput:
    """Reads commands from a pipe or a file. If there are none at all, it waits instead of ending.

    So `dovetail dev FILE < commands` ends after them, and under a supervisor, without stdin, it goes on.
    """

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._any = False
        threading.Thread(target=self._read, daemon=True).start()

    @contextlib.asynccontextmanager
    async def question(self) -> AsyncGenerator[None]:
        """One question at a time."""
        async with self._lock:
            yield

    async def prompt(self, prompt: str) -> str:
        """The next line; InputClosed after the last one."""
        line = await self._lines.get()
        if line is None:
            if not self._any:
                await asyncio.Event().wait()
            self._lines.put_nowait(None)
            raise InputClosed
        self._any = True
        return line.strip()

    def _read(self) -> None:
        with contextlib.suppress(RuntimeError, ValueError, OSError):
            for line in sys.stdin or ():
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
            self._loop.call_soon_threadsafe(self._lines.put_nowait, None)
