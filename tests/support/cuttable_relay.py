"""A TCP relay whose connections a test can cut."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from tests.support.http import listening, url_of


class Relay:
    """Passes bytes on as they come; `cut()` breaks what is open, and whoever comes again is let through.

    Between `block()` and `unblock()` nothing passes, as if packets were lost: connections stay open, and what is sent
    arrives afterwards.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._sock = listening()
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._silenced: set[asyncio.Task[None] | None] = set()
        self.url = url_of(self._sock)
        self.connections = 0
        self._passable = asyncio.Event()
        self._passable.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, sock=self._sock)
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._server.close()
        self.unblock()
        self.cut()
        await asyncio.gather(*self._passing, return_exceptions=True)

    def cut(self) -> None:
        """Break every connection, both ways, without a farewell."""
        for writer in list(self._writers):
            writer.transport.abort()

    def silence(self) -> None:
        """Lose what is sent over the connections that are open now, without closing them."""
        self._silenced.update(self._passing)

    def block(self) -> None:
        """Let nothing through."""
        self._passable.clear()

    def unblock(self) -> None:
        """Let everything through again."""
        self._passable.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            there = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(there[1])
        for source, target in ((reader, there[1]), (there[0], writer)):
            task = asyncio.create_task(self._pass(source, target))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while some := await source.read(65536):
                if asyncio.current_task() in self._silenced:
                    continue
                await self._passable.wait()
                target.write(some)
                await target.drain()
        self._writers.discard(target)
        target.close()
