"""One stream of events, over as many connections as it takes: each event once, and a pause when it is too much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dovetail.protocol.errors import ConnectionLost, InvalidAnswer
from dovetail.transports.http.contract import ClientResponse
from dovetail.transports.message_head import answers
from dovetail.wire.jsonrpc import Id
from dovetail.wire.sse import Event, EventParser, EventTooLong

LINGER_SECONDS = 5.0
"""How long a stream may stay open after the answer that it was for."""

MAX_REMEMBERED = 4096
"""Ids of events that a stream brought before its last interruption, and need not bring again."""

LONGEST_WAIT = 86_400.0


class ReadGate:
    """Whether to read on."""

    def __init__(self) -> None:
        self._open: asyncio.Event | None = None

    @property
    def closed(self) -> bool:
        """Whether nothing is let through."""
        return self._open is not None

    def close(self) -> None:
        """Let no more through."""
        if self._open is None:
            self._open = asyncio.Event()

    def open(self) -> None:
        """Let it flow again."""
        if self._open is not None:
            self._open.set()
            self._open = None

    async def flowing(self) -> None:
        """Wait while it is closed."""
        while self._open is not None:
            await self._open.wait()


class SseReader:
    """The events that belong together; `id` is that of the request they answer, None where they answer none."""

    def __init__(self, tap: ReadGate, limit: int, received: Callable[[bytes], None], id: Id | None = None) -> None:
        self._tap = tap
        self._limit = limit
        self._received = received
        self.id = id
        self.answered = False
        self.last: str | None = None
        """The id of the last event that had one."""
        self.retry: float | None = None
        """Seconds to wait before the next connection, where the server says so."""
        self._before: dict[str, None] = {}
        self._now: dict[str, None] = {}

    async def read(self, answer: ClientResponse) -> None:
        """Take the events of one connection until it ends; raises `ConnectionLost` when it breaks off.

        After the answer it is read on to its end, but not for ever.
        """
        self._before.update(self._now)
        self._now = {}
        while len(self._before) > MAX_REMEMBERED:
            del self._before[next(iter(self._before))]
        parser = EventParser(self._limit)
        try:
            async with asyncio.timeout(None) as patience:
                while chunk := await answer.chunk():
                    for event in parser.feed(chunk):
                        if self._tap.closed:
                            await self._tap.flowing()
                        self._take(event)
                    if self.answered and patience.when() is None:
                        patience.reschedule(asyncio.get_running_loop().time() + LINGER_SECONDS)
                    if self._tap.closed:
                        await self._tap.flowing()
        except TimeoutError:
            pass
        except EventTooLong as problem:
            for event in problem.events:
                self._take(event)
            raise InvalidAnswer(str(problem)) from None
        except ConnectionLost:
            if not self.answered:
                raise

    def _take(self, event: Event) -> None:
        if event.retry is not None:
            self.retry = min(event.retry / 1000, LONGEST_WAIT)
        if event.id:
            if event.id in self._before:
                return
            self._now[event.id] = None
            if len(self._now) > MAX_REMEMBERED:
                del self._now[next(iter(self._now))]
            self.last = event.id
        if not event.data or event.name != "message":
            return
        if self.id is not None and not self.answered:
            self.answered = answers(event.data, self.id)
        self._received(event.data)
