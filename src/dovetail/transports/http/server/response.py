"""The answer to one HTTP request: a body that is whole, or events as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from .asgi import RawHeaders, Send

JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_EVENTS: RawHeaders = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


WHOLE = "dovetail.whole"
"""In the scope of a request, where the server that runs the application writes a JSON answer with one call."""

Whole: TypeAlias = Callable[[int, bytes], bool]
"""Takes status and body; whether it was written."""


class Reply:
    """Writes one answer; `gone` says that nobody reads it any more."""

    __slots__ = ("_extra", "_send", "_whole_at_once", "gone", "leaving", "started", "status")

    def __init__(
        self, send: Send, extra: Iterable[tuple[bytes, bytes]] = (), whole_at_once: Whole | None = None
    ) -> None:
        self._send = send
        self._whole_at_once = whole_at_once
        self._extra = list(extra)
        self.started = False
        self.gone = False
        self.leaving = False
        """Whether a stream of events is to end here, and its reader to come back to it."""
        self.status = 0

    def add_header(self, name: bytes, value: bytes) -> None:
        """Add a header to what has not been started yet."""
        self._extra.append((name, value))

    async def json(self, status: int, body: bytes) -> None:
        """Answer with one JSON value."""
        at_once = self._whole_at_once
        if at_once is not None and not self._extra and not self.gone and at_once(status, body):
            self.started, self.status = True, status
        else:
            await self._whole(status, body, JSON)

    async def text(self, status: int, text: str) -> None:
        """Answer with words."""
        await self._whole(status, text.encode(), _TEXT)

    async def empty(self, status: int) -> None:
        """Answer without a body."""
        await self._whole(status, b"", None)

    async def begin_events(self) -> None:
        """Begin a stream of events."""
        self.started, self.status = True, 200
        await self._write({"type": "http.response.start", "status": 200, "headers": [*_EVENTS, *self._extra]})

    async def events(self, chunk: bytes) -> None:
        """Write the bytes of some events."""
        await self._write({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        """End a stream of events."""
        await self._write({"type": "http.response.body", "body": b"", "more_body": False})

    async def _whole(self, status: int, body: bytes, kind: tuple[bytes, bytes] | None) -> None:
        self.started, self.status = True, status
        headers = [(b"content-length", b"%d" % len(body)), *self._extra]
        if kind is not None:
            headers.append(kind)
        await self._write({"type": "http.response.start", "status": status, "headers": headers})
        await self._write({"type": "http.response.body", "body": body})

    async def _write(self, message: dict[str, object]) -> None:
        if self.gone:
            return
        try:
            await self._send(message)
        except OSError:  # what servers raise for a client that is gone
            self.gone = True
