"""uvicorn's HTTP protocol, writing once where it would write twice.

uvicorn hands the head of an answer and its body to the transport one after the other, and uvloop sends each
at once: two system calls, which are the dearest part of a short answer. An answer that is JSON, and whole, does not
even take the way through two messages of ASGI.

HTTP/1.1 on httptools as uvicorn has it, with a bound to what the head of a request may take.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dovetail.transports.http.server.response import WHOLE


class Cork:
    """A transport that sends together what one turn of the loop brings."""

    __slots__ = ("_call_soon", "_held", "_transport", "get_extra_info", "is_closing", "pause_reading", "resume_reading")

    def __init__(self, transport: asyncio.Transport, call_soon: Any) -> None:
        self._transport = transport
        self._call_soon = call_soon
        self._held: list[bytes] = []
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    def write(self, data: bytes) -> None:
        """Hold what there is until the turn is over."""
        if not self._held:
            self._call_soon(self._send)
        self._held.append(data)

    def close(self) -> None:
        """Send what is held, then close."""
        self._send()
        self._transport.close()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the bare connection over, as to a WebSocket."""
        self._send()
        self._transport.set_protocol(protocol)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _send(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self._transport.write(held[0] if len(held) == 1 else b"".join(held))


class CorkedHttpTools(HttpToolsProtocol):
    """HTTP over a corked transport."""

    def connection_made(self, transport: Any) -> None:  # type: ignore[override]
        """Begin to serve a connection."""
        super().connection_made(Cork(transport, self.loop.call_soon))  # type: ignore[arg-type]

    def on_headers_complete(self) -> None:
        """Begin to serve a request; the application is called in the next turn of the loop, and finds the short way."""
        super().on_headers_complete()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None:  # pyright: ignore[reportUnnecessaryComparison]
            cycle.scope[WHOLE] = partial(write_whole, cycle)  # type: ignore[literal-required]


def write_whole(cycle: RequestResponseCycle, status: int, body: bytes) -> bool:
    """Write a JSON answer, head and body together; False where uvicorn has something else to see to."""
    if (
        cycle.response_started
        or cycle.disconnected
        or not cycle.keep_alive
        or cycle.flow.write_paused
        or cycle.access_log
        or cycle.scope["method"] == "HEAD"
    ):
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    head = b"content-length: %d\r\ncontent-type: application/json\r\n\r\n" % len(body)
    # Held until the turn is over, as all else: who gets an answer sooner asks sooner, and turns would serve fewer.
    cycle.transport.write(b"".join((STATUS_LINE[status], _usual.text(cycle.default_headers), head, body)))
    cycle.message_event.set()
    cycle.on_response()
    return True


class _UsualHeaders:
    """Those that go with every answer, such as the date; uvicorn makes a new list of them once a second."""

    __slots__ = ("_headers", "_text")

    def __init__(self) -> None:
        self._headers: list[tuple[bytes, bytes]] | None = None
        self._text = b""

    def text(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The headers as they are written."""
        if headers is not self._headers:
            self._headers = headers
            self._text = b"".join(b"%s: %s\r\n" % pair for pair in headers)
        return self._text


_usual = _UsualHeaders()


MAX_HEAD_BYTES = 65_536
"""Twice what the endpoint takes, so that it is the endpoint that answers whoever is near it."""

HEAD_SECONDS = 30.0
"""How long a head may take to arrive, and a new connection to send its first byte."""


class BoundedHttp(CorkedHttpTools):
    """One connection; whoever never ends the head of a request is cut off."""

    _head = 0
    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first byte, but not for ever."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(HEAD_SECONDS, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._at_rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take some bytes; uvicorn puts the path into the scope when the head is whole."""
        super().data_received(data)
        scope = self.scope
        if scope is not None and "path" in scope:  # pyright: ignore[reportUnnecessaryComparison]
            if self._head:
                self._at_rest()
        elif not self.transport.is_closing() and self.transport.get_protocol() is self:
            self._head += len(data)
            if self._head > MAX_HEAD_BYTES:
                self.send_400_response("The head of the request is too large.")
            elif self._alarm is None:
                self._alarm = self.loop.call_later(HEAD_SECONDS, self.timeout_keep_alive_handler)

    def _at_rest(self) -> None:
        self._head = 0
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
