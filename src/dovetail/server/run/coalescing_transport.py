"""The transport of an HTTP connection: it joins small writes, and closes so that the peer gets the last response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .write_watch import WriteWatch

LINGER_SECONDS = 5.0
"""Seconds that a peer may go on sending a request that has been answered before it was read to its end."""


class CoalescingTransport:
    """A transport that sends what is written during one turn of the event loop with one system call.

    Closing a socket with unread input resets the connection, and the peer may lose the response. So while the peer is
    sending, `close` only ends our side; what still arrives is ignored until the peer closes too, or for some seconds
    (RFC 9112, section 9.6).
    """

    __slots__ = (
        "_ended",
        "_loop",
        "_pending",
        "_timer",
        "_transport",
        "_watch",
        "get_extra_info",
        "ignores_input",
        "is_closing",
        "pause_reading",
        "peer_is_sending",
        "resume_reading",
    )

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, watch: WriteWatch) -> None:
        self._transport = transport
        self._loop = loop
        self._watch = watch
        self._pending: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self.peer_is_sending = False
        """True between the head and the end of a request; the protocol sets it."""
        self.ignores_input = False
        """True if the protocol is to ignore what arrives."""
        self.get_extra_info = transport.get_extra_info
        self.is_closing: Callable[[], bool] = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    def write(self, data: bytes) -> None:
        """Keep the data until the turn is over."""
        if not self._pending:
            self._loop.call_soon(self._send)
        self._pending.append(data)

    def close(self) -> None:
        """Send what was written, then close."""
        self._send()
        if self.peer_is_sending and not self.is_closing() and self._transport.can_write_eof():
            self._linger()
            return
        self._stop_timer()
        self._transport.close()
        self._watch_unsent()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the underlying transport over, as to a WebSocket."""
        self._send()
        self._transport.set_protocol(protocol)

    def writing_paused(self) -> None:
        """The buffer is above its high-water mark: see that the peer reads."""
        self._watch.add(self)

    def writing_resumed(self) -> None:
        """The peer has caught up."""
        self._watch.discard(self)

    def lost(self) -> None:
        """The connection is lost."""
        self._stop_timer()
        self._watch.discard(self)

    def get_write_buffer_size(self) -> int:
        """The number of bytes that wait to be sent."""
        return self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """Drop the connection and what waits to be sent."""
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _send(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, []
            if not self._ended:
                self._transport.write(pending[0] if len(pending) == 1 else b"".join(pending))

    def _linger(self) -> None:
        self._timer = self._loop.call_later(LINGER_SECONDS, self.close)
        self._ended = self.ignores_input = True
        self.is_closing = _always
        self._transport.write_eof()
        self._transport.resume_reading()
        self._watch_unsent()

    def _watch_unsent(self) -> None:
        if self._transport.get_write_buffer_size():
            self._watch.add(self)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _always() -> bool:
    return True
