"""Reader of one SSE stream over as many connections as it takes: each event once, with backpressure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dovetail.protocol.errors import ConnectionLost, InvalidAnswer
from dovetail.transports.backpressure import ReadGate
from dovetail.transports.base import MESSAGE_LIMIT_OPTION
from dovetail.transports.http.contract import ClientResponse
from dovetail.types.bounded_dict import BoundedDict
from dovetail.wire.codec import Decoded
from dovetail.wire.jsonrpc import Failure, Id, Invalid, Response
from dovetail.wire.sse import Event, EventParser, EventTooLong

LINGER_SECONDS = 5.0
"""Seconds that a stream may stay open after the response that it was opened for."""

MAX_EVENT_IDS = 4096
"""Event ids that are remembered, to recognise events that a server repeats after a reconnection."""

MAX_RETRY_SECONDS = 86_400.0


class SseReader:
    """Hands out the messages of one logical stream.

    `id` is that of the request whose answer the stream brings, None for the stream of server-initiated messages.
    """

    def __init__(
        self, gate: ReadGate, max_event: int, received: Callable[[bytes], Decoded | None], id: Id | None = None
    ) -> None:
        self._gate = gate
        self._max_event = max_event
        self._received = received
        self.id = id
        self.answered = False
        self.messages = 0
        """Messages that have come over all connections."""
        self.last_event_id: str | None = None
        self.retry: float | None = None
        """Seconds to wait before the next connection, where the server says so."""
        self._earlier_ids = BoundedDict[str, None](MAX_EVENT_IDS)
        self._current_ids = BoundedDict[str, None](MAX_EVENT_IDS)

    async def read(self, response: ClientResponse) -> None:
        """Read one connection to its end; raises `ConnectionLost` when it breaks off before the answer.

        After the answer it is read on to its end, but no longer than `LINGER_SECONDS`.
        """
        self._earlier_ids.update(self._current_ids)
        self._current_ids.clear()
        parser = EventParser(self._max_event)
        try:
            async with asyncio.timeout(None) as linger:
                while chunk := await response.chunk():
                    for event in parser.feed(chunk):
                        if self._gate.closed:
                            await self._gate.wait_open()
                        self._handle(event)
                    if self.answered and linger.when() is None:
                        linger.reschedule(asyncio.get_running_loop().time() + LINGER_SECONDS)
                    if self._gate.closed:
                        await self._gate.wait_open()
        except TimeoutError:
            pass
        except EventTooLong as problem:
            for event in problem.events:
                self._handle(event)
            raise InvalidAnswer(f"{problem} ({MESSAGE_LIMIT_OPTION})") from None
        except ConnectionLost:
            if not self.answered:
                raise

    def _handle(self, event: Event) -> None:
        if event.retry is not None:
            self.retry = min(event.retry / 1000, MAX_RETRY_SECONDS)
        if event.id:
            if event.id in self._earlier_ids:
                return
            self._current_ids[event.id] = None
            self.last_event_id = event.id
        if not event.data or event.name != "message":
            return
        self.messages += 1
        message = self._received(event.data)
        if self.id is not None and not self.answered:
            self.answered = is_answer(message, self.id)


def is_answer(message: Decoded | None, id: Id) -> bool:
    """True if a message, or one of a batch, answers the request with this id, readable or not."""
    if isinstance(message, list):
        return any(is_answer(each, id) for each in message)
    if isinstance(message, (Response, Failure)) or (isinstance(message, Invalid) and (message.reply or message.bare)):
        return message.id == id and type(message.id) is type(id)
    return False
