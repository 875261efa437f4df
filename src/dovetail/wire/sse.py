"""Server-sent events: encoding and incremental parsing (WHATWG HTML, "Server-sent events")."""

from __future__ import annotations

import msgspec

KEEP_ALIVE = b":\n\n"
"""A comment, which every client ignores (Streamable HTTP, "Receiving Messages")."""

_BOM = b"\xef\xbb\xbf"
_MAX_RETRY_DIGITS = 15
"""The most digits of a `retry` field; one with more counts as 10**15 ms, which is for ever in any case."""


class Event(msgspec.Struct, frozen=True):
    """One received event."""

    data: bytes
    """Empty in an event that only sets an id (a priming event) or a retry time."""
    name: str = "message"
    id: str | None = None
    """The last event id of the stream, up to and including this event."""
    retry: int | None = None
    """Milliseconds to wait before reconnecting, if this event sets them."""


class EventTooLong(ValueError):
    """An event above the size limit; nothing after it can be read. `events` came before it in the same chunk."""

    def __init__(self, limit: int, events: list[Event]) -> None:
        super().__init__(f"A server-sent event has more than {limit} bytes")
        self.events = events


def encode_event(data: bytes, *, id: str | None = None, name: str | None = None, retry: int | None = None) -> bytes:
    """Encode one event; any line break in the data arrives as one newline."""
    if b"\n" in data or b"\r" in data:
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        body = b"".join([b"data: %b\n" % line for line in lines]) + b"\n"
    else:
        body = b"data: %b\n\n" % data
    if id is not None:
        body = b"id: %b\n%b" % (_one_line("id", id), body)
    if retry is not None:
        if retry < 0:
            raise ValueError(f"The retry time of an event cannot be negative: {retry}")
        body = b"retry: %d\n%b" % (retry, body)
    if name is not None:
        body = b"event: %b\n%b" % (_one_line("name", name), body)
    return body


def _one_line(what: str, text: str) -> bytes:
    if "\n" in text or "\r" in text or "\0" in text:
        raise ValueError(f"The {what} of an event has a line break or NUL: {text!r}")
    return text.encode()


class EventParser:
    """Incremental parser for a stream of events that arrives in chunks of any size.

    Beyond the standard, an event without data that sets an id or a retry time is returned too, because the client
    needs both to reconnect. An event that is incomplete at the end of the stream is never returned.
    """

    __slots__ = (
        "_after_cr",
        "_broken",
        "_data",
        "_id",
        "_limit",
        "_name",
        "_partial",
        "_prefix",
        "_retry",
        "_sets_reconnection",
        "_size",
    )

    def __init__(self, max_event: int) -> None:
        self._limit = max_event
        self._prefix: bytes | None = b""
        self._after_cr = False
        # One buffer, not a list of pieces: a peer that sends byte by byte must not cost an object each.
        self._partial = bytearray()
        self._size = 0
        self._data: list[bytes] = []
        self._name = b""
        self._id: str | None = None
        self._retry: int | None = None
        self._sets_reconnection = False
        self._broken = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Add received bytes; return the events that they complete."""
        if self._broken:
            raise EventTooLong(self._limit, [])
        if self._prefix is not None:
            chunk = self._without_bom(chunk)
        if self._after_cr and chunk:
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
            self._after_cr = False
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        last = lines.pop()
        events: list[Event] = []
        if lines and self._partial:
            self._append_partial(lines[0], events)
            lines[0] = bytes(self._partial)
            self._partial = bytearray()
        for line in lines:
            if line.startswith(b"data: "):
                self._size += len(line) + 1
                if self._size - 1 > self._limit:
                    self._fail(events)
                self._data.append(line[6:])
            elif line:
                self._line(line, events)
            else:
                self._dispatch(events)
        if last:
            self._append_partial(last, events)
        return events

    def _without_bom(self, chunk: bytes) -> bytes:
        seen = (self._prefix or b"") + chunk
        if len(seen) < len(_BOM) and _BOM.startswith(seen):
            self._prefix = seen
            return b""
        self._prefix = None
        return seen.removeprefix(_BOM)

    def _append_partial(self, piece: bytes, events: list[Event]) -> None:
        if self._size + len(self._partial) + len(piece) > self._limit:
            self._fail(events)
        self._partial += piece

    def _fail(self, events: list[Event]) -> None:
        self._broken = True
        self._data, self._partial = [], bytearray()
        raise EventTooLong(self._limit, events)

    def _line(self, line: bytes, events: list[Event]) -> None:
        size = self._size + len(line)
        if size > self._limit:
            self._fail(events)
        if line.startswith(b":"):
            return
        self._size = size + 1
        field, _, value = line.partition(b":")
        self._field(field, value.removeprefix(b" "))

    def _field(self, field: bytes, value: bytes) -> None:
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif field == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
                self._sets_reconnection = True
        elif field == b"retry" and value.isdigit():
            digits = value.lstrip(b"0") or b"0"
            self._retry = int(digits) if len(digits) <= _MAX_RETRY_DIGITS else 10**_MAX_RETRY_DIGITS
            self._sets_reconnection = True

    def _dispatch(self, events: list[Event]) -> None:
        if self._data or self._sets_reconnection:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            name = self._name.decode("utf-8", "replace") if self._name else "message"
            events.append(Event(data, name, self._id, self._retry))
            self._data = []
            self._retry = None
            self._sets_reconnection = False
        self._name = b""
        self._size = 0
