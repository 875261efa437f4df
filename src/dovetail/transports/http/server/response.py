"""The response to one HTTP request: one whole body, or server-sent events as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from .asgi import RawHeaders, Send

_JSON: RawHeaders = [(b"content-type", b"application/json")]
_MESSAGE: RawHeaders = [(b"cache-control", b"no-store"), *_JSON]
"""The headers of a message: it may be for one caller only, and HTTP caches look at headers, not at `cacheScope`."""
_TEXT: RawHeaders = [(b"content-type", b"text/plain; charset=utf-8")]
_HTML: RawHeaders = [(b"content-type", b"text/html; charset=utf-8")]
_EVENTS: RawHeaders = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]

MESSAGE_FIELDS = b"".join(b"%b: %b\r\n" % field for field in _MESSAGE)
"""The header fields of a message besides its length, as they are sent."""

WRITE_MESSAGE = "dovetail.write_message"
"""Key in the scope, where the HTTP server can write a JSON-RPC message with one call instead of two ASGI messages."""

WriteMessage: TypeAlias = Callable[[int, bytes], bool]
"""Takes status and body; True if they were written."""


class HttpResponse:
    """Writes one response; `gone` says that the client does not read any more."""

    __slots__ = ("_headers", "_send", "_write_message", "gone", "leaving", "started", "status")

    def __init__(self, send: Send, write_message: WriteMessage | None = None) -> None:
        self._send = send
        self._write_message = write_message
        self._headers: RawHeaders | None = None
        self.started = False
        self.gone = False
        self.leaving = False
        """True if an event stream is to end here; its client reconnects and resumes it."""
        self.status = 0

    @property
    def closed(self) -> bool:
        """True if no more events can be written here."""
        return self.gone or self.leaving

    def add_header(self, name: bytes, value: bytes) -> None:
        """Add a header to a response that has not been started yet."""
        if self._headers is None:
            self._headers = []
        self._headers.append((name, value))

    async def message(self, status: int, body: bytes) -> None:
        """Answer with one JSON-RPC message, or a batch, which no cache may store."""
        write = self._write_message
        if write is not None and self._headers is None and not self.gone and write(status, body):
            self.started, self.status = True, status
        else:
            await self._whole(status, body, _MESSAGE)

    async def json(self, status: int, body: bytes) -> None:
        """Answer with a JSON document."""
        await self._whole(status, body, _JSON)

    async def text(self, status: int, text: str) -> None:
        """Answer with plain text."""
        await self._whole(status, text.encode(), _TEXT)

    async def html(self, status: int, text: str) -> None:
        """Answer with a page."""
        await self._whole(status, text.encode(), _HTML)

    async def empty(self, status: int) -> None:
        """Answer without a body."""
        await self._whole(status, b"", ())

    async def begin_events(self) -> None:
        """Begin a stream of events."""
        self.started, self.status = True, 200
        await self._write({"type": "http.response.start", "status": 200, "headers": [*_EVENTS, *(self._headers or ())]})

    async def events(self, chunk: bytes) -> None:
        """Write the bytes of some events."""
        await self._write({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        """End a stream of events."""
        await self._write({"type": "http.response.body", "body": b"", "more_body": False})

    async def _whole(self, status: int, body: bytes, fields: Iterable[tuple[bytes, bytes]]) -> None:
        self.started, self.status = True, status
        headers = [(b"content-length", b"%d" % len(body)), *(self._headers or ()), *fields]
        if self.gone:
            return
        try:
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
            await self._send({"type": "http.response.body", "body": body})
        except OSError:  # what servers raise for a client that is gone
            self.gone = True

    async def _write(self, message: dict[str, object]) -> None:
        if self.gone:
            return
        try:
            await self._send(message)
        except OSError:  # what servers raise for a client that is gone
            self.gone = True
