"""uvicorn's HTTP/1.1 protocol (on httptools) with fewer writes, strict framing and limits.

uvicorn hands the head and the body of a response to the transport one after the other, and uvloop sends each at once:
two system calls, which are the most expensive part of a short response. Here they are sent together, and a
JSON-RPC message does not even become two ASGI messages.

httptools reads no body after a head with `Upgrade`, and reports trailers as if they were headers; `BoundedHttp` mends
both. `protocol_check` verifies at start that the parts of uvicorn that are used here still behave as they must.
"""

from __future__ import annotations

import enum
from functools import partial
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dovetail.transports.http.server.response import MESSAGE_FIELDS, WRITE_MESSAGE

from . import connection_limits
from .bounded_connection import BoundedConnection
from .connection_limits import is_body_header

_BODY, _BEGINS = -2, -1

_ABOUT_UPGRADES = frozenset({b"upgrade", b"http2-settings"})
_MESSAGE_HEAD = b"content-length: %d\r\n" + MESSAGE_FIELDS + b"\r\n"
_INVALID = "Invalid HTTP request received."


class Upgrade(enum.Enum):
    """The upgrades that a head can ask for."""

    WEBSOCKET = "a WebSocket"
    IGNORED = "another protocol, or a WebSocket in a request that cannot become one"


class _IgnoredTrailers(list[tuple[bytes, bytes]]):
    """Takes the place of the list of headers once the head is complete: trailers are no headers (RFC 9110, 6.5.1)."""

    __slots__ = ()

    def append(self, _: tuple[bytes, bytes], /) -> None:
        """Ignore a trailer."""


_IGNORED_TRAILERS = _IgnoredTrailers()


class BoundedHttp(BoundedConnection, HttpToolsProtocol):
    """A connection with strict framing, closed when a head is too long or too slow, or when its peer does not read.

    A response that is begun before the request has been read to its end says `Connection: close`, because what the peer
    sends next cannot be relied on to be a request.
    """

    cycle: Any
    parser: Any
    _fields = 0
    """Bytes received since the parser began to read a head or trailers, without those of the segment in which that was;
    `_BEGINS` until the end of that segment, and `_BODY` while neither is read."""
    _keep_alive = True
    """False if the connection is to be closed after the response to the request that is being parsed."""
    _upgrade: Upgrade | None = None
    """The upgrade that the head asks for."""

    def data_received(self, data: bytes) -> None:
        """Feed the parser and check the limits."""
        if self.transport.ignores_input:
            return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if not self._serve_upgrade(memoryview(data)[upgrade.args[0] :]):
                return
        except httptools.HttpParserError:
            self._refuse_garbage()
            return
        if self._fields < 0:
            if self._fields == _BEGINS:
                self._fields = 0
            if self._head_timer is not None:
                self._stop_head_timer()
        else:
            self._check_fields(len(data))

    def on_headers_complete(self) -> None:
        """Serve a request; the application, called in the next turn, finds `write_response` in its scope."""
        if self.parser.should_upgrade():
            self._upgrade = self._requested_upgrade()
            if self._upgrade is Upgrade.WEBSOCKET:
                super().on_headers_complete()
            return
        super().on_headers_complete()
        cycle = self.cycle
        self.headers = _IGNORED_TRAILERS
        self._fields = _BODY
        self._keep_alive = cycle.keep_alive
        cycle.keep_alive = False
        self.transport.peer_is_sending = True
        scope: Any = cycle.scope
        scope[WRITE_MESSAGE] = partial(write_response, cycle)
        if scope["http_version"] != "1.1":
            self._adapt_to_version(cycle)

    def _adapt_to_version(self, cycle: Any) -> None:
        if cycle.scope["http_version"] != "1.0":
            raise httptools.HttpParserError("neither HTTP/1.1 nor HTTP/1.0")
        cycle.waiting_for_100_continue = False  # such a client does not know it (RFC 9110, section 10.1.1)
        cycle.send = Http10Sender(cycle).send

    def on_chunk_header(self) -> None:
        """Count bytes from here on, until there is a body: the last chunk is followed by trailers."""
        self._fields = _BEGINS

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._fields = _BODY
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has been read to its end, so that another may follow."""
        if self._upgrade is not None:
            return
        self._fields = _BEGINS
        self.transport.peer_is_sending = False
        cycle = self.cycle
        if not cycle.response_started:
            cycle.keep_alive = self._keep_alive
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()

    def shutdown(self) -> None:
        """Close after the response to the current request."""
        self._keep_alive = False
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuse what was received and close, once the requests before it have been answered."""
        cycle = self.cycle
        self.transport.ignores_input = True
        if not self._is_serving():
            self._send_400(msg)
        elif not cycle.more_body:
            cycle.on_response = partial(self._send_400, msg)
        elif self.pipeline and self.pipeline[0][0] is cycle:
            self.pipeline[0] = (cycle, _bad_request)  # the fault is in the body of a request that waits for its turn
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
            else:
                self._send_400(msg)

    def _send_400(self, msg: str) -> None:
        if not self.transport.is_closing():
            self.transport.peer_is_sending = True
            super().send_400_response(msg)

    def _refuse_garbage(self) -> None:
        self.logger.warning(_INVALID)
        self.send_400_response(_INVALID)

    def _is_serving(self) -> bool:
        """True if the last request that was read has not been answered."""
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete

    def _requested_upgrade(self) -> Upgrade:
        parser = self.parser
        if parser.get_method() == b"CONNECT":
            raise httptools.HttpParserError("CONNECT is for proxies")
        websocket = (
            self._should_upgrade()
            and parser.get_method() == b"GET"
            and parser.get_http_version() == "1.1"
            and not any(is_body_header(name, value) for name, value in self.headers)
        )
        return Upgrade.WEBSOCKET if websocket else Upgrade.IGNORED

    def _serve_upgrade(self, rest: memoryview) -> bool:
        """Begin a WebSocket, or parse the request again without its `Upgrade`; False if nothing is left to do.

        Nobody has to upgrade (RFC 9110, section 7.8). Clients of HTTP/2 offer it with every request by default, and
        the body of such a request follows as usual.
        """
        while True:
            upgrade, self._upgrade = self._upgrade, None
            if upgrade is Upgrade.WEBSOCKET and not rest and not self._is_serving():
                self._stop_head_timer()
                self.handle_websocket_upgrade()
                return False
            try:
                self.parser.feed_data(self._head_without_upgrade())
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as next_upgrade:
                rest = rest[next_upgrade.args[0] :]
            except httptools.HttpParserError:
                self._refuse_garbage()
                return False
            else:
                return True

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                options = [option.strip() for option in value.lower().split(b",")]
                kept = [option for option in options if option not in _ABOUT_UPGRADES]
                lines.append(b"connection: " + b", ".join(kept))
            elif name not in _ABOUT_UPGRADES:
                lines.append(b"%b: %b" % (name, value))
        return b"\r\n".join([*lines, b"", b""])

    def _check_fields(self, size: int) -> None:
        """Limit the head or the trailers that are being received, in size and, unless a response is due, in time."""
        self._fields += size
        if self._fields > connection_limits.MAX_HEAD_BYTES:
            self.send_400_response("The head of the request, or its trailers, are too large.")
        elif self._head_timer is None and not self._is_serving():
            self._head_timer = self.loop.call_later(connection_limits.HEAD_SECONDS, self._close_slow_head)

    def _close_slow_head(self) -> None:
        self._head_timer = None
        # Bytes after a request, such as an empty line, may wait as long as its response takes.
        if not self._is_serving():
            self.timeout_keep_alive_handler()


async def _bad_request(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(_INVALID))]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": _INVALID.encode()})


class Http10Sender:
    """Sends the response to a client of HTTP/1.0: a body of unknown length ends with the connection, not with a chunk.

    Such a client does not know chunks (RFC 9112, section 6.1).
    """

    def __init__(self, cycle: Any) -> None:
        self._cycle = cycle
        self._send = cycle.send
        self._streams = False

    async def send(self, message: Any) -> None:
        """Send an ASGI message."""
        cycle = self._cycle
        if message["type"] == "http.response.start":
            self._streams = all(name != b"content-length" for name, _ in message["headers"])
            if self._streams:
                cycle.chunked_encoding = False
        elif self._streams:
            cycle.expected_content_length = len(message.get("body", b""))
        await self._send(message)


def write_response(cycle: RequestResponseCycle, status: int, body: bytes) -> bool:
    """Write a JSON-RPC message as the response, or return False where uvicorn must (close, backpressure, HEAD)."""
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
    head = _MESSAGE_HEAD % len(body)
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
