"""Newline framing: splits a byte stream into lines within a limit on memory."""

from __future__ import annotations

import msgspec

_ENDS = 512
"""Bytes kept of the start and the end of a line that is too long, to recover the id of its request."""


class TooLong(msgspec.Struct, frozen=True):
    """A line above the limit, of which only the start and the end were kept."""

    size: int
    head: bytes
    tail: bytes
    limit: int | None = None


class LineSplitter:
    """Splits a byte stream into lines (stdio transport: one message per line, no embedded newlines)."""

    __slots__ = ("_buffer", "_head", "_limit", "_size", "_tail")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # One buffer, not a list of pieces: a peer that sends byte by byte must not cost an object each.
        self._buffer = bytearray()
        self._size = 0
        self._head = b""
        self._tail = b""

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """Add received bytes; return the lines that they complete, without their newlines."""
        lines: list[bytes | TooLong] = []
        pieces = data.split(b"\n")
        last = pieces.pop()
        for piece in pieces:
            line = self._finish(piece)
            if line:
                lines.append(line)
        self._append(last)
        return lines

    def end(self) -> bytes | TooLong | None:
        """The incomplete line after the last newline when the stream has ended, if there is one."""
        return self._finish(b"") or None

    def _finish(self, piece: bytes) -> bytes | TooLong:
        line: bytes | TooLong = piece
        if self._size or len(piece) > self._limit:
            self._append(piece)
            if self._size > self._limit:
                line = TooLong(self._size, self._head, self._tail, self._limit)
            else:
                line = bytes(self._buffer)
            self._buffer, self._size = bytearray(), 0
        if isinstance(line, bytes):
            return line[:-1] if line.endswith(b"\r") else line
        return line

    def _append(self, piece: bytes) -> None:
        if not piece:
            return
        skipping = self._size > self._limit
        self._size += len(piece)
        if not skipping and self._size <= self._limit:
            self._buffer += piece
            return
        if not skipping:
            self._head = bytes(self._buffer[:_ENDS])
            self._tail = bytes(self._buffer[-_ENDS:])
            self._buffer = bytearray()
        self._head += piece[: _ENDS - len(self._head)]
        self._tail = (self._tail + piece[-_ENDS:])[-_ENDS:]
