"""One message a text frame over a WebSocket with the subprotocol `mcp`, on either side.

A WebSocket has no half that could be ended alone: a peer that closes reads no more either. Pings are the
work of what runs below: uvicorn sends them every `ws_ping_interval` seconds, `websockets` every `ping_interval`,
and both break off when no pong comes. A peer whose messages nobody reads for that long cannot be heard answering.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dovetail.protocol.errors import ConnectionLost, HttpStatus
from dovetail.types.errors import missing_extra
from dovetail.wire.lines import TooLong

from .base import HIGH_WATER, MAX_LINE, Receiver

if TYPE_CHECKING:
    from ssl import SSLContext

    from websockets.asyncio.client import ClientConnection

SUBPROTOCOL = "mcp"

NORMAL, GOING_AWAY, UNSUPPORTED_DATA = 1000, 1001, 1003
"""Why a WebSocket is closed (RFC 6455, section 7.4.1)."""

_CLOSE_SECONDS = 2.0
_FRAMES_A_TURN = 256
"""Frames handed out before the loop gets its turn: those of one chunk are all there without waiting."""

_ENDS = 512

Receive: TypeAlias = "Callable[[], Awaitable[Mapping[str, Any]]]"
Send: TypeAlias = "Callable[[dict[str, Any]], Awaitable[None]]"


class UpgradeRefused(HttpStatus):
    """A server answered the handshake with a status and not with a WebSocket."""

    def __init__(self, url: str, response: Any) -> None:
        super().__init__(f"{url} answered {_status(response)}, not with a WebSocket", response.status_code, url)
        self.headers = _headers(response)


class _Ended(Exception):
    """The peer is gone."""


class FrameChannel:
    """What both sides share: one task that reads, and one that writes while there is something to write."""

    goodbye = NORMAL
    """The code that tells the peer why we close."""

    def __init__(self, max_message: int = MAX_LINE) -> None:
        self._max_message = max_message
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._reader: asyncio.Task[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._why = ""
        self._lost = False
        self._closed = False

    @property
    def congested(self) -> bool:
        """Whether more than the high-water mark waits to be written."""
        return self._size > HIGH_WATER

    def open(self, receiver: Receiver) -> None:
        """Begin to read."""
        self._reader = asyncio.get_running_loop().create_task(self._read(receiver))

    def send(self, line: bytes) -> None:
        """Queue one message."""
        if self._lost or self._closed:
            return
        self._lines.append(line)
        self._size += len(line)
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    def flush(self) -> None:
        """Nothing to do: every message is a frame of its own, written as soon as the task has its turn."""

    async def drained(self) -> None:
        """Wait until the queue is below the high-water mark."""
        while self.congested and not self._lost:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def pause(self) -> None:
        """Take no more frames; what is below then stops reading too."""
        self._may_read.clear()

    def resume(self) -> None:
        """Take frames again."""
        self._may_read.set()

    def part_with(self, code: int, reason: str) -> None:
        """Tell the peer this as the reason when it is closed."""
        self.goodbye, self._why = code, reason

    async def close(self) -> None:
        """Write what is queued within a bounded time, say goodbye, and let go."""
        if self._closed:
            return
        self._closed = True
        if self._reader is not None:
            self._reader.cancel()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                if self._writer is not None:
                    await asyncio.wait({self._writer})
                await self._end(self.goodbye, self._why)
        except TimeoutError:
            pass
        finally:
            self._lose()
            tasks = {task for task in (self._reader, self._writer) if task is not None}
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            await self._let_go()

    async def _take_frame(self) -> str | bytes:
        """The next frame; raises `_Ended` when there will be none."""
        raise NotImplementedError

    async def _give_frame(self, line: bytes) -> None:
        """Write a text frame as soon as the peer lets us; raises whatever it likes when there is no peer."""
        raise NotImplementedError

    async def _end(self, code: int, reason: str) -> None:
        """Close the WebSocket, unless it is closed."""
        raise NotImplementedError

    async def _let_go(self) -> None:
        """Give back what the operating system gave, however the goodbye went."""

    async def _read(self, receiver: Receiver) -> None:
        frames = 0
        try:
            while True:
                if not self._may_read.is_set():
                    await self._may_read.wait()
                frame = await self._take_frame()
                if not self._may_read.is_set():
                    await self._may_read.wait()
                if isinstance(frame, bytes):
                    self.part_with(UNSUPPORTED_DATA, "messages are text, not binary")
                    raise _Ended("the peer sent a binary frame; messages are text")
                line = frame.encode()
                if len(line) <= self._max_message:
                    receiver.received(line)
                else:
                    receiver.overlong(TooLong(len(line), line[:_ENDS], line[-_ENDS:]))
                frames += 1
                if frames % _FRAMES_A_TURN == 0:
                    await asyncio.sleep(0)
        except Exception as problem:
            reason = str(problem) if isinstance(problem, _Ended) else f"reading failed: {problem}"
        self._lose()
        receiver.disconnected(reason)

    async def _write(self) -> None:
        try:
            while self._lines:
                line = self._lines.popleft()
                await self._give_frame(line)
                self._size -= len(line)
                if self._waiters and not self.congested:
                    self._wake()
        except Exception:
            # The reader finds out why, and tells; whoever waits for room must not wait for that.
            self._lose()
        finally:
            self._writer = None

    def _lose(self) -> None:
        self._lost = True
        self._lines.clear()
        self._size = 0
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class AsgiWebSocketChannel(FrameChannel):
    """The server's side, from the `receive` and `send` of an ASGI application.

    uvicorn closes with 1009 at messages above its `ws_max_size` (16 MB by default). A message that it lets
    through and that is above `max_message` is refused alone.
    """

    goodbye = GOING_AWAY

    def __init__(self, receive: Receive, send: Send, max_message: int = MAX_LINE) -> None:
        super().__init__(max_message)
        self._receive = receive
        self._send = send
        self._over = False

    async def accept(self, offered: Sequence[str]) -> bool:
        """Answer the handshake, given the subprotocols of the scope; false when it was refused.

        A client that names none is taken, one that names only others is not: it expects another language.
        """
        event = await self._receive()
        if event["type"] != "websocket.connect":
            return False
        if offered and SUBPROTOCOL not in offered:
            await self._send({"type": "websocket.close", "code": NORMAL})
            return False
        await self._send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL if offered else None})
        return True

    async def _take_frame(self) -> str | bytes:
        event = await self._receive()
        if event["type"] == "websocket.receive":
            text: str | None = event.get("text")
            return text if text is not None else event["bytes"]
        self._over = True
        raise _Ended(_parting_words(event.get("code"), event.get("reason")))

    async def _give_frame(self, line: bytes) -> None:
        await self._send({"type": "websocket.send", "text": line.decode()})

    async def _end(self, code: int, reason: str) -> None:
        if self._over:
            return
        self._over = True
        with contextlib.suppress(Exception):  # servers differ in what they raise when nobody is there
            await self._send({"type": "websocket.close", "code": code, "reason": reason})


async def connect_websocket(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    ssl: SSLContext | None = None,
    proxy: str | Literal[True] | None = None,
    max_message: int = MAX_LINE,
    open_timeout: float = 10.0,
    ping_interval: float | None = 20.0,
    ping_timeout: float | None = 20.0,
) -> WebSocketChannel:
    """A channel to the server behind a `ws://` or `wss://` URL; `proxy=True` takes that of the environment.

    Redirects are not followed, for the headers may be meant for this server alone. Frames are not compressed:
    that costs more CPU and memory than it is worth between programs.
    """
    connect = _library()
    from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI, WebSocketException

    try:
        attempt = connect(
            url,
            subprotocols=[SUBPROTOCOL],
            additional_headers=dict(headers or {}),
            proxy=proxy,
            compression=None,
            max_size=max_message,
            open_timeout=open_timeout,
            ping_interval=ping_interval,
            ping_timeout=ping_timeout,
            close_timeout=_CLOSE_SECONDS,
            **({} if ssl is None else {"ssl": ssl}),
        )
        connection: ClientConnection = await attempt
    except InvalidURI as problem:
        raise ConnectionLost(f"{url!r} is not the URL of a WebSocket: {problem.msg}") from problem
    except InvalidStatus as problem:
        raise UpgradeRefused(url, problem.response) from problem
    except TimeoutError as problem:
        raise ConnectionLost(f"{url} did not answer within {open_timeout:g} s") from problem
    except InvalidHandshake as problem:
        raise ConnectionLost(f"{url} does not answer as a WebSocket does: {problem}") from problem
    except (OSError, ValueError, WebSocketException) as problem:
        raise ConnectionLost(f"Could not connect to {url}: {problem}") from problem
    if connection.subprotocol != SUBPROTOCOL:
        await connection.close(NORMAL)
        raise ConnectionLost(f"{url} is a WebSocket, but not one with the subprotocol {SUBPROTOCOL!r}")
    return WebSocketChannel(connection, max_message)


class WebSocketChannel(FrameChannel):
    """The client's side, over a connection of the `websockets` library, which closes at messages too long."""

    def __init__(self, connection: ClientConnection, max_message: int = MAX_LINE) -> None:
        super().__init__(max_message)
        self._connection = connection
        self.headers = _headers(connection.response)
        """What the server said with the WebSocket."""

    async def _take_frame(self) -> str | bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            return await self._connection.recv()
        except ConnectionClosed as closed:
            said = closed.rcvd or closed.sent
            code, reason = (said.code, said.reason) if said is not None else (None, None)
            raise _Ended(_parting_words(code, reason)) from None

    async def _give_frame(self, line: bytes) -> None:
        await self._connection.send(line, text=True)

    async def _end(self, code: int, reason: str) -> None:
        await self._connection.close(code, reason)

    async def _let_go(self) -> None:
        self._connection.transport.abort()
        await self._connection.wait_closed()


def _library() -> Callable[..., Any]:
    """The `connect` of the `websockets` library, without redirects."""
    try:
        from websockets.asyncio.client import connect
    except ImportError as problem:
        raise missing_extra("http", "A WebSocket connection") from problem

    class Directly(connect):
        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc

    return Directly


def _headers(response: Any) -> dict[str, str]:
    """The headers of an answer, by names in lower case; several of a name are joined by commas."""
    if response is None:
        return {}
    headers = response.headers
    return {name.lower(): ", ".join(headers.get_all(name)) for name in headers}


def _status(response: Any) -> str:
    """The status of a refusal and the beginning of what it says."""
    body: bytes = response.body or b""
    said = " ".join(body[:200].decode(errors="replace").split())
    target = response.headers.get("Location")
    hint = f" (to {target})" if target else f" ({said})" if said else ""
    return f"HTTP {response.status_code}{hint}"


def _parting_words(code: int | None, reason: str | None) -> str:
    """Why the peer is gone, for a person."""
    if code in (NORMAL, GOING_AWAY, 1005):
        return f"the peer closed the connection{f': {reason}' if reason else ''}"
    if code is None or code == 1006:
        return "the connection broke"
    return f"the WebSocket was closed with code {code}{f': {reason}' if reason else ''}"
