"""WebSocket with the subprotocol `mcp`, for client and server: one message in each text frame.

A WebSocket has no half-close: a peer that closes reads no more either. The libraries below send the pings: uvicorn
every `ws_ping_interval` seconds, `websockets` every `ping_interval`, and both close the connection when no pong comes.
While reading is paused, pongs are not read either: a pause that is longer than the ping timeout ends the connection.
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

from .backpressure import ReadGate, UnsentBytes
from .base import MAX_LINE, MAX_RECEIVED, MESSAGE_LIMIT_OPTION, Receiver

if TYPE_CHECKING:
    from ssl import SSLContext

    from websockets.asyncio.client import ClientConnection

SUBPROTOCOL = "mcp"

NORMAL, GOING_AWAY, UNSUPPORTED_DATA, TOO_BIG = 1000, 1001, 1003, 1009
"""Codes of close frames (RFC 6455, section 7.4.1)."""

_CLOSE_SECONDS = 2.0
_FRAMES_PER_TURN = 256
"""Frames that are delivered before the loop gets its turn: reading those of one chunk never waits."""

_ENDS = 512

Receive: TypeAlias = "Callable[[], Awaitable[Mapping[str, Any]]]"
Send: TypeAlias = "Callable[[dict[str, Any]], Awaitable[None]]"


class UpgradeRefused(HttpStatus):
    """A server answered the handshake with an HTTP status instead of a WebSocket."""

    def __init__(self, url: str, response: Any) -> None:
        super().__init__(f"{url} answered {_status(response)}, not with a WebSocket", response.status_code, url)
        self.headers = _headers(response)


class _Ended(Exception):
    """The connection is closed; the message says why."""


class FrameChannel:
    """Base of both sides: one task that reads, and one that writes while there is something to write."""

    close_code = NORMAL
    """The code of the close frame."""

    def __init__(self, max_message: int = MAX_LINE) -> None:
        self._max_message = max_message
        self._lines: deque[bytes] = deque()
        self._unsent = UnsentBytes()
        self._gate = ReadGate()
        self._reader: asyncio.Task[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._close_reason = ""
        self._closed = False

    @property
    def congested(self) -> bool:
        """True if more than the high-water mark waits to be written."""
        return self._unsent.congested

    def open(self, receiver: Receiver) -> None:
        """Begin to read."""
        self._reader = asyncio.get_running_loop().create_task(self._read(receiver))

    def send(self, line: bytes) -> None:
        """Buffer one message."""
        if self._unsent.closed or self._closed:
            return
        self._lines.append(line)
        self._unsent.add(len(line))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    def flush(self) -> None:
        """Do nothing: every message is a frame of its own, written as soon as the task has its turn."""

    async def drained(self) -> None:
        """Wait until the buffer is below the high-water mark, or the connection is lost."""
        await self._unsent.drained()

    def pause(self) -> None:
        """Receive no more frames, so that the library below stops reading too."""
        self._gate.close()

    def resume(self) -> None:
        """Receive frames again."""
        self._gate.open()

    def set_close_reason(self, code: int, reason: str) -> None:
        """Send this code and reason when the channel is closed."""
        self.close_code, self._close_reason = code, reason

    async def close(self) -> None:
        """Write what is buffered within a bounded time, send a close frame, and release the connection."""
        if self._closed:
            return
        self._closed = True
        if self._reader is not None:
            self._reader.cancel()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                if self._writer is not None:
                    await asyncio.wait({self._writer})
                await self._send_close(self.close_code, self._close_reason)
        except TimeoutError:
            pass
        finally:
            self._drop_unsent()
            tasks = {task for task in (self._reader, self._writer) if task is not None}
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            await self._release()

    async def _receive_frame(self) -> str | bytes:
        """The next frame; raises `_Ended` when there will be none."""
        raise NotImplementedError

    async def _send_frame(self, line: bytes) -> None:
        """Write a text frame when the peer can receive it; any exception means that the connection is lost."""
        raise NotImplementedError

    async def _send_close(self, code: int, reason: str) -> None:
        """Close the WebSocket, unless it is closed."""
        raise NotImplementedError

    async def _release(self) -> None:
        """Release what the operating system provides, whether the close frame was sent or not."""

    async def _read(self, receiver: Receiver) -> None:
        frames = 0
        try:
            while True:
                if self._gate.closed:
                    await self._gate.wait_open()
                frame = await self._receive_frame()
                if self._gate.closed:
                    await self._gate.wait_open()
                if isinstance(frame, bytes):
                    self.set_close_reason(UNSUPPORTED_DATA, "messages are text, not binary")
                    raise _Ended("the peer sent a binary frame; messages are text")
                line = frame.encode()
                if len(line) <= self._max_message:
                    receiver.received(line)
                else:
                    receiver.overlong(TooLong(len(line), line[:_ENDS], line[-_ENDS:], self._max_message))
                frames += 1
                if frames % _FRAMES_PER_TURN == 0:
                    await asyncio.sleep(0)
        except Exception as problem:
            reason = str(problem) if isinstance(problem, _Ended) else f"reading failed: {problem}"
        self._drop_unsent()
        receiver.disconnected(reason)

    async def _write(self) -> None:
        try:
            while self._lines:
                line = self._lines.popleft()
                await self._send_frame(line)
                self._unsent.remove(len(line))
        except Exception:
            # The reader finds out why, and reports it; senders that wait must not wait for that.
            self._drop_unsent()
        finally:
            self._writer = None

    def _drop_unsent(self) -> None:
        self._lines.clear()
        self._unsent.close()


class AsgiWebSocketChannel(FrameChannel):
    """The server's side, from the `receive` and `send` of an ASGI application.

    uvicorn closes with 1009 at messages above its `ws_max_size` (16 MB by default). A message that it lets
    through and that is above `max_message` is refused alone.
    """

    close_code = GOING_AWAY

    def __init__(self, receive: Receive, send: Send, max_message: int = MAX_LINE) -> None:
        super().__init__(max_message)
        self._receive = receive
        self._send = send
        self._over = False

    async def accept(self, offered: Sequence[str]) -> bool:
        """Answer the handshake, given the subprotocols of the scope; false when it was refused.

        A client that names none is accepted; one that names only others is not, since it expects another protocol.
        """
        event = await self._receive()
        if event["type"] != "websocket.connect":
            return False
        if offered and SUBPROTOCOL not in offered:
            await self._send({"type": "websocket.close", "code": NORMAL})
            return False
        await self._send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL if offered else None})
        return True

    async def _receive_frame(self) -> str | bytes:
        event = await self._receive()
        if event["type"] == "websocket.receive":
            text: str | None = event.get("text")
            return text if text is not None else event["bytes"]
        self._over = True
        raise _Ended(_close_text(event.get("code"), event.get("reason")))

    async def _send_frame(self, line: bytes) -> None:
        await self._send({"type": "websocket.send", "text": line.decode()})

    async def _send_close(self, code: int, reason: str) -> None:
        if self._over:
            return
        self._over = True
        with contextlib.suppress(Exception):  # servers differ in what they raise when the connection is lost
            await self._send({"type": "websocket.close", "code": code, "reason": reason})


async def connect_websocket(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    ssl: SSLContext | None = None,
    proxy: str | Literal[True] | None = None,
    max_message: int = MAX_RECEIVED,
    open_timeout: float = 10.0,
    ping_interval: float | None = 20.0,
    ping_timeout: float | None = 20.0,
) -> WebSocketChannel:
    """Connect to the server at a `ws://` or `wss://` URL; `proxy=True` uses the proxy of the environment.

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
    """The client's side, over a connection of the `websockets` library, which closes at messages that are too long."""

    def __init__(self, connection: ClientConnection, max_message: int = MAX_RECEIVED) -> None:
        super().__init__(max_message)
        self._connection = connection
        self.headers = _headers(connection.response)
        """The headers of the response that opened the WebSocket."""

    async def _receive_frame(self) -> str | bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            return await self._connection.recv()
        except ConnectionClosed as closed:
            if closed.rcvd is None and closed.sent is not None and closed.sent.code == TOO_BIG:
                limit = f"{self._max_message} bytes ({MESSAGE_LIMIT_OPTION})"
                raise _Ended(f"the server sent a message of more than {limit}") from None
            said = closed.rcvd or closed.sent
            code, reason = (said.code, said.reason) if said is not None else (None, None)
            raise _Ended(_close_text(code, reason)) from None

    async def _send_frame(self, line: bytes) -> None:
        await self._connection.send(line, text=True)

    async def _send_close(self, code: int, reason: str) -> None:
        await self._connection.close(code, reason)

    async def _release(self) -> None:
        self._connection.transport.abort()
        await self._connection.wait_closed()


def _library() -> Callable[..., Any]:
    """The `connect` of the `websockets` library, without redirects."""
    try:
        from websockets.asyncio.client import connect
    except ImportError as problem:
        raise missing_extra("http", "A WebSocket connection") from problem

    class ConnectWithoutRedirects(connect):
        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc

    return ConnectWithoutRedirects


def _headers(response: Any) -> dict[str, str]:
    """The headers of a response, by names in lower case; several of a name are joined by commas."""
    if response is None:
        return {}
    headers = response.headers
    return {name.lower(): ", ".join(headers.get_all(name)) for name in headers}


def _status(response: Any) -> str:
    """The status of a refusal and the beginning of its body."""
    body: bytes = response.body or b""
    said = " ".join(body[:200].decode(errors="replace").split())
    target = response.headers.get("Location")
    hint = f" (to {target})" if target else f" ({said})" if said else ""
    return f"HTTP {response.status_code}{hint}"


def _close_text(code: int | None, reason: str | None) -> str:
    """The reason of a disconnection, in words."""
    if code in (NORMAL, GOING_AWAY, 1005):
        return f"the peer closed the connection{f': {reason}' if reason else ''}"
    if code is None or code == 1006:
        return "the connection broke"
    return f"the WebSocket was closed with code {code}{f': {reason}' if reason else ''}"
