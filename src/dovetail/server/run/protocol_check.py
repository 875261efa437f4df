"""The choice of the HTTP protocol for the installed uvicorn, whose private parts are subclassed.

Before anything is served, a protocol is given a few requests without a socket. One that cannot be imported, or that
treats a request in another way than it must, is not used: the next one is, with a warning that says what is lost.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import uvicorn
from uvicorn.server import ServerState

from dovetail.transports.http.server.asgi import Receive, Scope, Send
from dovetail.transports.http.server.response import WRITE_MESSAGE

from .write_watch import WriteWatch

logger = logging.getLogger("dovetail")


class ServerConfig(uvicorn.Config):
    """uvicorn's configuration, with what the connections of one process share."""

    write_watch: WriteWatch


def choose_http_protocol(config: ServerConfig) -> Any:
    """The fastest protocol that works with this uvicorn; the configuration must be loaded."""
    for load, consequence in (
        (_httptools_protocol, "Requests are parsed with h11, which is slower; nothing else changes"),
        (_h11_protocol, "Nothing bounds the time and memory that silent clients, and those that do not read, take"),
    ):
        try:
            protocol = load()
            problem = _find_problem(protocol, config)
        except ModuleNotFoundError as missing:
            if missing.name == "httptools":
                continue
            problem = repr(missing)
        except Exception as unexpected:
            problem = repr(unexpected)
        else:
            if problem is None:
                return protocol
        logger.warning(
            "uvicorn %s is not as Dovetail expects it (%s). %s. Install another version of uvicorn, or of Dovetail.",
            uvicorn.__version__,
            problem,
            consequence,
        )
    from uvicorn.protocols.http.h11_impl import H11Protocol

    return H11Protocol


def _httptools_protocol() -> Any:
    from .uvicorn_protocol import BoundedHttp

    return BoundedHttp


def _h11_protocol() -> Any:
    from .h11_protocol import BoundedH11

    return BoundedH11


class _Expected(NamedTuple):
    """A request, and how it must be served."""

    title: str
    request: bytes
    body: bytes
    kept: bool
    """True if the connection stays open."""


_HEAD = b"POST /x HTTP/1.1\r\nhost: x\r\n"
_CASES = (
    _Expected("a request", _HEAD + b"content-length: 2\r\n\r\n{}", b"{}", True),
    _Expected(
        "a trailer", _HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-trailer: 1\r\n\r\n", b"{}", True
    ),
    _Expected(
        "an upgrade",
        _HEAD + b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\n{}",
        b"{}",
        True,
    ),
    _Expected("an incomplete body", _HEAD + b"content-length: 3\r\n\r\n{}", b"{}", False),
)


def _find_problem(protocol: Any, config: ServerConfig) -> str | None:
    """The first thing that a protocol does wrong; None if it does everything right."""
    for case in _CASES:
        connection = _Connection(protocol, config)
        connection.receive(case.request)
        if connection.bodies != [(case.body, not case.kept)]:
            return f"{case.title} is not read as it should be"
        if any(name == b"x-trailer" for name, _ in connection.headers):
            return "trailers are taken for headers"
        if not connection.sent.startswith(b"HTTP/1.1 200 OK\r\n") or not connection.sent.endswith(b"\r\n\r\n[]"):
            return f"the response to {case.title} is not written as it should be"
        closes = b"\r\nconnection: close\r\n" in connection.sent
        if case.kept in (closes, connection.ended):
            return f"after {case.title} the connection is {'closed' if case.kept else 'kept open'}"
    return None


class _Connection:
    """A protocol without a socket, and an application that remembers what it is given and answers `[]`."""

    def __init__(self, protocol: Any, config: ServerConfig) -> None:
        self.bodies: list[tuple[bytes, bool]] = []
        """The bodies that were received, each with whether more is to come."""
        self.headers: list[tuple[bytes, bytes]] = []
        self._loop = _Loop()
        config = copy.copy(config)
        config.loaded_app = self._serve
        self._protocol = protocol(config, ServerState(), {}, self._loop)
        self._transport = _Transport(self._protocol)
        self._protocol.connection_made(self._transport)

    @property
    def sent(self) -> bytes:
        """The bytes of the response."""
        return self._transport.sent

    @property
    def ended(self) -> bool:
        """True if the connection was closed."""
        return self._transport.is_closing()

    def receive(self, data: bytes) -> None:
        """Let the protocol parse the data and serve the request in it."""
        self._protocol.data_received(data)
        self._loop.run()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        self.bodies.append((message["body"], message["more_body"]))
        self.headers = list(scope["headers"])
        write = scope.pop(WRITE_MESSAGE, None)
        if write is None or not write(200, b"[]"):
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"[]"})


class _Loop:
    """The part of an event loop that a protocol needs; it runs when it is told to, and its timers never end."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], object]] = []

    def run(self) -> None:
        while self._callbacks:
            self._callbacks.pop(0)()

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._callbacks.append(callback)

    def call_later(self, _: float, callback: Callable[[], object]) -> _Handle:
        return _Handle()

    def create_task(self, coroutine: Coroutine[Any, Any, None], **_: Any) -> _Handle:
        def run() -> None:
            try:
                coroutine.send(None)
            except StopIteration:
                return
            coroutine.close()
            raise RuntimeError("a request that has arrived is waited for")

        self._callbacks.append(run)
        return _Handle()


class _Handle:
    """A timer or a task that nobody waits for."""

    def cancel(self) -> None:
        pass

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        pass


class _Transport(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        self._ended = False
        self.sent = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def write_eof(self) -> None:
        self._ended = True

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        self._ended = True

    def is_closing(self) -> bool:
        return self._ended

    def get_write_buffer_size(self) -> int:
        return 0

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass
