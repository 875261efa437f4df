"""Lines over stream sockets, Unix or TCP, with or without TLS; the same for client and server.

Half-close works as over stdio: a peer that has shut down its side still reads, so its requests are answered. TLS
has no half-close: there the end of one side is the end of the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from dovetail.protocol.errors import ConnectionLost, LocalError
from dovetail.wire.lines import TooLong

from .base import MAX_LINE, MAX_RECEIVED, Receiver
from .line_channel import LineChannel
from .line_sink import BatchingSink
from .line_source import BufferedSource, OnEnd, OnLine

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_SECONDS = 10.0
"""Seconds that connecting may take, TLS included."""

_LINGER_SECONDS = 0.5
"""Seconds that a closing channel waits for the peer to shut down its side too.

A socket that is closed with something unread in it breaks the connection, and what was sent last is lost.
"""

_TLS_END_SECONDS = 2.0


async def connect_unix(path: str | os.PathLike[str], *, max_line: int = MAX_RECEIVED) -> SocketChannel:
    """A channel to the server that listens at a Unix socket."""
    if sys.platform == "win32":
        raise LocalError("Unix sockets need an operating system that has them")
    where = os.fspath(path)
    loop = asyncio.get_running_loop()
    try:
        _, channel = await loop.create_unix_connection(lambda: SocketChannel(max_line), where)
    except (OSError, ValueError) as problem:
        raise ConnectionLost(f"Could not connect to the socket {where}: {_error_text(problem)}") from problem
    try:
        # To asyncio a socket is connected also when the backlog of the server is full and connecting has failed.
        channel.socket.getpeername()
    except OSError as problem:
        await channel.close()
        raise ConnectionLost(f"The server at the socket {where} takes no more connections now") from problem
    return channel


async def connect_tcp(
    host: str,
    port: int,
    *,
    ssl: SSLContext | None = None,
    max_line: int = MAX_RECEIVED,
    timeout: float = CONNECT_SECONDS,
) -> SocketChannel:
    """A channel to the server that listens at a TCP port."""
    loop = asyncio.get_running_loop()
    # By default asyncio waits 30 s for a peer that does not end its side of TLS.
    patience = None if ssl is None else _TLS_END_SECONDS
    try:
        async with asyncio.timeout(timeout):
            _, channel = await loop.create_connection(
                lambda: SocketChannel(max_line), host, port, ssl=ssl, ssl_shutdown_timeout=patience
            )
    except TimeoutError as problem:
        raise ConnectionLost(f"{host} port {port} did not answer within {timeout:g} s") from problem
    except (OSError, ValueError, OverflowError) as problem:
        raise ConnectionLost(f"Could not connect to {host} port {port}: {_error_text(problem)}") from problem
    return channel


class SocketChannel(LineChannel, asyncio.Protocol):
    """One connected socket; made by the event loop as the protocol of its transport."""

    def __init__(
        self,
        max_line: int = MAX_LINE,
        *,
        only_json: bool = False,
        connected: Callable[[SocketChannel], None] | None = None,
    ) -> None:
        """Make a channel without a connection; `connected` is called with it once it has one.

        `only_json` breaks off at once when the first thing that arrives is no JSON object or array: a web
        page can make a browser send a request to any port, with messages for its body.
        """
        super().__init__(max_line)
        self._only_json = only_json
        self._connected = connected
        self._gone = asyncio.Event()
        self._peer_ended = asyncio.Event()
        self._closed = False
        self._transport: asyncio.Transport
        self._incoming: _TransportSource
        self._outgoing: _TransportSink

    @property
    def socket(self) -> socket.socket:
        """The socket, to inspect it."""
        return self._transport.get_extra_info("socket")

    def open(self, receiver: Receiver) -> None:
        """Begin to read."""
        self._receiver = receiver
        self._incoming.start()

    async def close(self) -> None:
        """Write what is left, shut down our side, and close once the peer has shut down its own or takes too long."""
        if self._closed:
            await self._gone.wait()
            return
        self._closed = True
        transport = self._transport
        try:
            self._incoming.discard()
            await self._outgoing.finish()
            if transport.can_write_eof():
                with contextlib.suppress(OSError, RuntimeError):
                    transport.write_eof()
                await _within(_LINGER_SECONDS, self._peer_ended)
            else:
                transport.close()
                await _within(_TLS_END_SECONDS, self._gone)
        finally:
            transport.abort()
        await self._gone.wait()

    def abort(self) -> None:
        """Close the connection at once, without writing what is left."""
        self._closed = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected; nothing is read before there is a receiver."""
        self._transport = wire = cast("asyncio.Transport", transport)
        below = self.socket
        if below.family != getattr(socket, "AF_UNIX", None):
            # So that a peer that has vanished is noticed eventually.
            with contextlib.suppress(OSError):
                below.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._source = self._incoming = _TransportSource(wire, self._max_line, self._received, self._ended)
        self._sink = self._outgoing = _TransportSink(wire)
        # Later, because asyncio's TLS does not send the end of its handshake if reading is paused at this point.
        asyncio.get_running_loop().call_soon(self._incoming.hold)
        # `pause_writing` is called as soon as the buffer holds anything; with high=0, TLS calls it for an empty one.
        wire.set_write_buffer_limits(high=1, low=0)
        if self._connected is not None:
            self._connected(self)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        if self._only_json and (first := data.lstrip()[:1]):
            self._only_json = False
            if first not in b"{[":
                self._incoming.end("the peer sends no JSON, as a browser would")
                self.abort()
                return
        self._incoming.feed(data)

    def eof_received(self) -> bool:
        """The peer has shut down its side; the result says whether ours stays open."""
        half = self._transport.can_write_eof()
        self._peer_ended.set()
        self._incoming.end(None if half else "the peer closed the connection")
        return half

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._gone.set()
        self._peer_ended.set()
        self._outgoing.lose()
        self._incoming.end(f"the connection broke: {_error_text(exc)}" if exc else "the connection was closed")

    def pause_writing(self) -> None:
        """The system accepts no more bytes for now."""
        self._outgoing.block()

    def resume_writing(self) -> None:
        """The system has accepted everything."""
        self._outgoing.unblock()

    def _received(self, line: bytes | TooLong) -> None:
        if not self._closed:
            super()._received(line)

    def _ended(self, reason: str | None) -> None:
        if self._receiver is not None and not self._closed:
            self._receiver.disconnected(reason)


class _TransportSource(BufferedSource):
    """Splits into lines what an asyncio transport reads."""

    def __init__(self, transport: asyncio.Transport, limit: int, on_line: OnLine, on_end: OnEnd) -> None:
        super().__init__(limit, on_line, on_end)
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._paused = True

    def hold(self) -> None:
        """Stop reading, unless a receiver was set meanwhile."""
        if self._paused:
            self._pause_reading()

    def start(self) -> None:
        """Begin to read."""
        self.resume()

    def feed(self, data: bytes) -> None:
        """Accept bytes that the transport has read."""
        self._feed(data)

    def end(self, reason: str | None) -> None:
        """Nothing more will arrive."""
        self._end(reason)

    def read_available(self) -> None:
        """Do nothing: the transport reads as fast as it can."""

    def stop(self) -> None:
        """Read no more."""
        self._ended = True
        self._pause_reading()

    def _pause_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()


class _TransportSink(BatchingSink):
    """Writes to an asyncio transport, but only when it has nothing else to write."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._in_transport = 0

    async def finish(self) -> None:
        """Wait until everything is written, up to a bound."""
        await self._emptied()

    def block(self) -> None:
        """The transport's buffer is not empty: the system accepts no more."""
        self._blocked = True

    def unblock(self) -> None:
        """The transport's buffer is empty."""
        self._blocked = False
        written, self._in_transport = self._in_transport, 0
        self._unsent.remove(written)
        if self._scheduled is None:
            self._write()

    def lose(self) -> None:
        """The connection is lost: drop what is buffered."""
        self._lines.clear()
        self._in_transport = 0
        self._unsent.close()

    def _write(self) -> None:
        self._scheduled = None
        if self._lines and not self._blocked:
            data = self._joined()
            self._transport.write(data)
            # The transport may have called `block` meanwhile. TLS adds bytes of its own, so that more may be left.
            self._in_transport = self._transport.get_write_buffer_size() if self._blocked else 0
            self._unsent.remove(len(data) - self._in_transport)


async def _within(seconds: float, event: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _error_text(problem: Exception) -> str:
    """The text of an error, without its number."""
    return (isinstance(problem, OSError) and problem.strerror) or str(problem) or type(problem).__name__
