"""Server-sent events: bytes of an event, and events out of bytes (WHATWG HTML, "Server-sent events")."""

from __future__ import annotations

import msgspec

KEEP_ALIVE = b":\n\n"
"""A comment, which every reader skips (Streamable HTTP, "Receiving Messages")."""

_BOM = b"\xef\xbb\xbf"
_LONGEST_RETRY = 15
"""Digits of a waiting time that are read; with more it is for ever in any case."""


class Event(msgspec.Struct, frozen=True):
    """One event as it arrived."""

    data: bytes
    """Empty in an event that only brings an id (a priming event) or a waiting time."""
    name: str = "message"
    id: str | None = None
    """The last id that the stream has named, up to and with this event."""
    retry: int | None = None
    """Milliseconds to wait before a new connection, where this event says so."""


class EventTooLong(ValueError):
    """An event is above the limit; nothing after it can be read. `events` came before it in the same chunk."""

    def __init__(self, limit: int, events: list[Event]) -> None:
        super().__init__(f"A server-sent event has more than {limit} bytes")
        self.events = events


def event(data: bytes, *, id: str | None = None, name: str | None = None, retry: int | None = None) -> bytes:
    """The bytes of one event; a line break in the data arrives as one newline."""
    if b"\n" in data or b"\r" in data:
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        body = b"".join([b"data: %b\n" % line for line in lines]) + b"\n"
    else:
        body = b"data: %b\n\n" % data
    if id is not None:
        body = b"id: %b\n%b" % (_one_line("id", id), body)
    if retry is not None:
        if retry < 0:
            raise ValueError(f"The waiting time of an event cannot be negative: {retry}")
        body = b"retry: %d\n%b" % (retry, body)
    if name is not None:
        body = b"event: %b\n%b" % (_one_line("name", name), body)
    return body


def _one_line(what: str, text: str) -> bytes:
    if "\n" in text or "\r" in text or "\0" in text:
        raise ValueError(f"The {what} of an event has a line break or NUL: {text!r}")
    return text.encode()


class EventParser:
    """Reads events from a stream that arrives in chunks of any size.

    Beyond the standard, an event without data that names an id or a waiting time is yielded too: whoever reads
    the stream has to learn both. An event that the end of the stream cuts off is never yielded.
    """

    __slots__ = (
        "_after_cr",
        "_broken",
        "_data",
        "_id",
        "_limit",
        "_name",
        "_partial",
        "_retry",
        "_size",
        "_start",
        "_tells",
    )

    def __init__(self, max_event: int) -> None:
        self._limit = max_event
        self._start: bytes | None = b""
        self._after_cr = False
        # One buffer, not a list of pieces: a peer that sends byte by byte must not cost an object each.
        self._partial = bytearray()
        self._size = 0
        self._data: list[bytes] = []
        self._name = b""
        self._id: str | None = None
        self._retry: int | None = None
        self._tells = False
        self._broken = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Take bytes as they come; return the events they complete."""
        if self._broken:
            raise EventTooLong(self._limit, [])
        if self._start is not None:
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
        found: list[Event] = []
        if lines and self._partial:
            self._keep(lines[0], found)
            lines[0] = bytes(self._partial)
            self._partial = bytearray()
        for line in lines:
            if line.startswith(b"data: "):
                self._size += len(line) + 1
                if self._size - 1 > self._limit:
                    self._give_up(found)
                self._data.append(line[6:])
            elif line:
                self._line(line, found)
            else:
                self._dispatch(found)
        if last:
            self._keep(last, found)
        return found

    def _without_bom(self, chunk: bytes) -> bytes:
        seen = (self._start or b"") + chunk
        if len(seen) < len(_BOM) and _BOM.startswith(seen):
            self._start = seen
            return b""
        self._start = None
        return seen.removeprefix(_BOM)

    def _keep(self, piece: bytes, found: list[Event]) -> None:
        if self._size + len(self._partial) + len(piece) > self._limit:
            self._give_up(found)
        self._partial += piece

    def _give_up(self, found: list[Event]) -> None:
        self._broken = True
        self._data, self._partial = [], bytearray()
        raise EventTooLong(self._limit, found)

    def _line(self, line: bytes, found: list[Event]) -> None:
        size = self._size + len(line)
        if size > self._limit:
            self._give_up(found)
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
                self._tells = True
        elif field == b"retry" and value.isdigit():
            digits = value.lstrip(b"0") or b"0"
            self._retry = int(digits) if len(digits) <= _LONGEST_RETRY else 10**_LONGEST_RETRY
            self._tells = True

    def _dispatch(self, found: list[Event]) -> None:
        if self._data or self._tells:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            name = self._name.decode("utf-8", "replace") if self._name else "message"
            found.append(Event(data, name, self._id, self._retry))
            self._data = []
            self._retry = None
            self._tells = False
        self._name = b""
        self._size = 0
