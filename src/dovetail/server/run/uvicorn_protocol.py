"""uvicorn's HTTP/1.1 protocol (on httptools) with fewer writes and with limits on request heads.

uvicorn hands the head and the body of a response to the transport one after the other, and uvloop sends each at once:
two system calls, which are the most expensive part of a short response. Here they are sent together, and a complete
JSON response does not even become two ASGI messages.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dovetail.transports.http.server.response import WRITE_JSON


class CoalescingTransport:
    """A transport that sends what is written during one turn of the event loop with one system call."""

    __slots__ = (
        "_call_soon",
        "_pending",
        "_transport",
        "get_extra_info",
        "is_closing",
        "pause_reading",
        "resume_reading",
    )

    def __init__(self, transport: asyncio.Transport, call_soon: Any) -> None:
        self._transport = transport
        self._call_soon = call_soon
        self._pending: list[bytes] = []
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    def write(self, data: bytes) -> None:
        """Keep the data until the turn is over."""
        if not self._pending:
            self._call_soon(self._send)
        self._pending.append(data)

    def close(self) -> None:
        """Send what was written, then close."""
        self._send()
        self._transport.close()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the underlying transport over, as to a WebSocket."""
        self._send()
        self._transport.set_protocol(protocol)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _send(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, []
            self._transport.write(pending[0] if len(pending) == 1 else b"".join(pending))


class CoalescingHttp(HttpToolsProtocol):
    """HTTP/1.1 over a `CoalescingTransport`."""

    def connection_made(self, transport: Any) -> None:  # type: ignore[override]
        """Serve a new connection."""
        super().connection_made(CoalescingTransport(transport, self.loop.call_soon))  # type: ignore[arg-type]

    def on_headers_complete(self) -> None:
        """Serve a request; the application, called in the next turn, finds `write_response` in its scope."""
        super().on_headers_complete()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None:  # pyright: ignore[reportUnnecessaryComparison]
            cycle.scope[WRITE_JSON] = partial(write_response, cycle)  # type: ignore[literal-required]


def write_response(cycle: RequestResponseCycle, status: int, body: bytes) -> bool:
    """Write a complete JSON response, or return False where uvicorn must write it (close, backpressure, HEAD)."""
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
    # Sent at the end of the turn, as everything is: if sent at once, each turn of the loop would serve fewer requests.
    cycle.transport.write(b"".join((STATUS_LINE[status], _default_headers.text(cycle.default_headers), head, body)))
    cycle.message_event.set()
    cycle.on_response()
    return True


class _DefaultHeaders:
    """The headers of every response, such as the date, as text; uvicorn makes a new list of them once a second."""

    __slots__ = ("_headers", "_text")

    def __init__(self) -> None:
        self._headers: list[tuple[bytes, bytes]] | None = None
        self._text = b""

    def text(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The headers in the form in which they are sent."""
        if headers is not self._headers:
            self._headers = headers
            self._text = b"".join(b"%s: %s\r\n" % pair for pair in headers)
        return self._text


_default_headers = _DefaultHeaders()


MAX_HEAD_BYTES = 65_536
"""Twice the limit of the application, so that a head a little above that is answered by the application."""

HEAD_SECONDS = 30.0
"""Seconds within which a head must arrive, and a new connection must send its first byte."""


class BoundedHttp(CoalescingHttp):
    """A connection that is closed when the head of a request is too long or too slow."""

    _head_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait a limited time for the first byte."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(HEAD_SECONDS, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        self._head_complete()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser and check the limits; uvicorn puts the path into the scope when the head is complete."""
        super().data_received(data)
        scope = self.scope
        if scope is not None and "path" in scope:  # pyright: ignore[reportUnnecessaryComparison]
            if self._head_bytes:
                self._head_complete()
        elif not self.transport.is_closing() and self.transport.get_protocol() is self:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.send_400_response("The head of the request is too large.")
            elif self._timer is None:
                self._timer = self.loop.call_later(HEAD_SECONDS, self.timeout_keep_alive_handler)

    def _head_complete(self) -> None:
        self._head_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
