"""A TCP connection that sends exact bytes and reads whole HTTP/1.1 responses, written without any HTTP library."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from typing import NamedTuple, Self

from tests.support.raw import PATIENCE


class Response(NamedTuple):
    """A response that was read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The status, with the text that the tool `echo` returned."""
        if self.status != 200 or self.headers.get("content-type") != "application/json":
            return str(self.status)
        message = json.loads(self.body) if self.body else {}
        return f"200 {message['result']['structuredContent']}" if "result" in message else "200"


class RawConnection:
    """One connection to a server."""

    def __init__(self, host: str, port: int, *, receive_buffer: int | None = None) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.connect((host, port))
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A reset leaves no socket in TIME_WAIT: some tests open thousands.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Send all of it, or as much as the peer takes before it closes."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.sock.sendall(data)

    def response(self, *, to_head: bool = False) -> Response | None:
        """The next response; None if the peer has closed the connection."""
        head = self._until(b"\r\n\r\n")
        if head is None:
            assert not self._received, f"the connection was closed after {self._received[:200]!r}"
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1", first
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            assert name.lower() not in headers, f"the header {name} comes twice"
            headers[name.lower()] = value.strip()
        return Response(int(status), headers, self._body(int(status), headers, to_head))

    def is_closed(self) -> bool:
        """Wait until the peer closes; False if it sends something instead."""
        assert not self._received, self._received[:200]
        self._receive()
        return not self._received

    def _body(self, status: int, headers: dict[str, str], to_head: bool) -> bytes:
        if to_head or status < 200 or status in (204, 304):
            return b""
        if headers.get("transfer-encoding") == "chunked":
            return self._chunks()
        if "content-length" in headers:
            return self._exactly(int(headers["content-length"]))
        while self._receive():
            pass
        body, self._received = self._received, b""
        return body

    def _chunks(self) -> bytes:
        parts: list[bytes] = []
        while True:
            size = self._until(b"\r\n")
            assert size is not None, "the connection was closed in a chunk"
            part = self._exactly(int(size, 16))
            assert self._exactly(2) == b"\r\n"
            if not part:
                return b"".join(parts)
            parts.append(part)

    def _until(self, end: bytes) -> bytes | None:
        while end not in self._received:
            if not self._receive():
                return None
        found, _, self._received = self._received.partition(end)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            assert self._receive(), f"the connection was closed {size - len(self._received)} bytes before the end"
        found, self._received = self._received[:size], self._received[size:]
        return found

    def _receive(self) -> bool:
        try:
            data = self.sock.recv(262_144)
        except ConnectionResetError:
            data = b""
        self._received += data
        return bool(data)
