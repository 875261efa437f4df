"""The response to one HTTP request: one whole body, or server-sent events as they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .asgi import RawHeaders, Send

JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_HTML = (b"content-type", b"text/html; charset=utf-8")
_EVENTS: RawHeaders = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


WRITE_JSON = "dovetail.write_json"
"""Key in the scope, where the HTTP server can write a JSON response with one call instead of two ASGI messages."""

WriteJson: TypeAlias = Callable[[int, bytes], bool]
"""Takes status and body; True if they were written."""


class HttpResponse:
    """Writes one response; `gone` says that the client does not read any more."""

    __slots__ = ("_headers", "_send", "_write_json", "gone", "leaving", "started", "status")

    def __init__(self, send: Send, write_json: WriteJson | None = None) -> None:
        self._send = send
        self._write_json = write_json
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

    async def json(self, status: int, body: bytes) -> None:
        """Answer with one JSON value."""
        write = self._write_json
        if write is not None and self._headers is None and not self.gone and write(status, body):
            self.started, self.status = True, status
        else:
            await self._whole(status, body, JSON)

    async def text(self, status: int, text: str) -> None:
        """Answer with plain text."""
        await self._whole(status, text.encode(), _TEXT)

    async def html(self, status: int, text: str) -> None:
        """Answer with a page."""
        await self._whole(status, text.encode(), _HTML)

    async def empty(self, status: int) -> None:
        """Answer without a body."""
        await self._whole(status, b"", None)

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

    async def _whole(self, status: int, body: bytes, kind: tuple[bytes, bytes] | None) -> None:
        self.started, self.status = True, status
        headers = [(b"content-length", b"%d" % len(body)), *(self._headers or ())]
        if kind is not None:
            headers.append(kind)
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
