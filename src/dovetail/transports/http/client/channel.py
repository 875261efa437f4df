"""Client's channel over Streamable HTTP: every message is a POST; the answer is JSON or an SSE stream."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.protocol import headers as names
from dovetail.protocol.envelope import VERSION, meta_of
from dovetail.protocol.errors import (
    ConnectionLost,
    DovetailError,
    HttpStatus,
    InvalidAnswer,
    LocalError,
    OutcomeUnknown,
    SessionEnded,
)
from dovetail.protocol.names import header_paths
from dovetail.protocol.revisions import REVISIONS, Revision
from dovetail.transports.backpressure import ReadGate, UnsentBytes
from dovetail.transports.base import MAX_RECEIVED, MESSAGE_LIMIT_OPTION, Receiver, RequestChannel
from dovetail.transports.http.contract import ClientResponse
from dovetail.transports.http.redelivery import TRY_AGAIN_STATUSES, NotAccepted, deliver
from dovetail.transports.http.requester import (
    HttpRequester,
    media_type,
    read_all,
    read_error,
    retry_after,
    unexpected_content,
)
from dovetail.transports.ordered_sender import OrderedSender
from dovetail.types.tools import Tool
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Notification, Request

from .sse_reader import SseReader, is_answer
from .sse_resume import GetStream

logger = logging.getLogger("dovetail")

MAX_POSTS = 512
CLOSE_SECONDS = 1.0
"""Seconds that a closing channel waits for its last messages, and again for the end of its session."""

DELIVER_SECONDS = 30.0
"""Seconds that a server may take to accept a notification or a response; later messages wait for it."""

SUBSCRIBE_WAIT_SECONDS = 2.0
"""Seconds after the handshake that a subscription waits for the GET stream, over which the changes come."""

CALL_WAIT_SECONDS = 1.0
"""The same for calls during which a server may send requests: some send them before there is a GET stream, and hang."""

_JSON, _EVENTS = "application/json", "text/event-stream"
_POST = {"content-type": _JSON, "accept": f"{_JSON}, {_EVENTS}"}
_PROXY_FAILURES = (502, 504)
"""A proxy got no response: the server behind it may have received the request."""
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")
_INITIALIZED = "notifications/initialized"
_CANCELLED = "notifications/cancelled"
_WAIT_FOR_GET_STREAM = {
    "resources/subscribe": SUBSCRIBE_WAIT_SECONDS,
    **dict.fromkeys(("tools/call", "prompts/get", "resources/read"), CALL_WAIT_SECONDS),
}


class PostedRequest:
    """A request in flight: its values, its bytes until they are sent, and the session and revision it was sent with."""

    __slots__ = ("line", "request", "revision", "session", "task", "unsent")

    task: asyncio.Task[None]

    def __init__(self, request: Request, line: bytes, revision: Revision | None, session: str | None) -> None:
        self.request = request
        self.line = line
        self.revision = revision
        self.session = session
        self.unsent = len(line)


class HttpChannel(RequestChannel):
    """Channel over Streamable HTTP, on every revision that has it."""

    def __init__(self, requester: HttpRequester, max_body: int = MAX_RECEIVED) -> None:
        self._requester = requester
        self._max_body = max_body
        self._receiver: Receiver
        self._loop: asyncio.AbstractEventLoop
        self._revision: Revision | None = None
        self._posted: dict[Id, PostedRequest] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._sender = OrderedSender(self._deliver)
        self._initialized = asyncio.Event()
        """Clear while `notifications/initialized` is on its way: requests must come after it."""
        self._initialized.set()
        self._gate = ReadGate()
        self._unsent = UnsentBytes()
        self._open_posts = UnsentBytes(MAX_POSTS)
        """Requests without an answer; they are bounded in the same way as bytes."""
        self._closing = False
        self._get_stream = GetStream(requester, self._session_headers)
        self.session_id: str | None = None
        self.ended_session = None
        self.header_arguments: Mapping[str, Mapping[tuple[str, ...], str]] = {}
        """By tool: the arguments that are repeated in HTTP headers."""

    @property
    def congested(self) -> bool:
        """True if more is on its way to the server than the bounds allow."""
        return self._unsent.congested or self._open_posts.congested

    def open(self, receiver: Receiver) -> None:
        """Set the receiver; no connection is made before the first message."""
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()

    def agreed(self, revision: Revision) -> None:
        """Send the revision that both sides have agreed on with every request."""
        self._revision = revision

    def send(self, line: bytes, message: Request | Notification | None = None) -> None:
        """Post one message: requests concurrently, notifications and answers in order.

        `message` holds the values that `line` was encoded from; a line that comes without them is decoded.
        """
        if self._closing:
            return
        if message is None:
            message = decode_sent(line)
        if not isinstance(message, Request):
            self._send_in_order(message, line)
            return
        starts = message.method == "initialize"
        if self.ended_session is not None and not starts:
            self._receiver.failed(message.id, SessionEnded(self.ended_session, ran=False))
            return
        posted = PostedRequest(message, line, self._revision_of(message), None if starts else self.session_id)
        self._unsent.add(posted.unsent)
        self._open_posts.add(1)
        self._posted[message.id] = posted
        posted.task = self._loop.create_task(self._run(posted))

    def flush(self) -> None:
        """Do nothing: no message is buffered."""

    async def drained(self) -> None:
        """Wait until the channel is not congested."""
        while self.congested:
            await self._unsent.drained()
            await self._open_posts.drained()

    def pause(self) -> None:
        """Stop reading all responses."""
        self._gate.close()

    def resume(self) -> None:
        """Read again."""
        self._gate.open()

    async def wait_for_get_stream(self) -> None:
        """Wait, within bounds, until the server can send messages that belong to no request."""
        await self._get_stream.wait_answered(SUBSCRIBE_WAIT_SECONDS)

    def learn_tools(self, tools: list[Tool]) -> list[Tool]:
        """Learn which arguments of which tools go into headers; returns the tools that can be called.

        A tool whose annotations are invalid is left out, and a warning says why (2026-07-28 Streamable HTTP, "Custom
        Headers from Tool Parameters"). Numbers could be mirrored in the draft that was a handshake revision.
        """
        usable: list[Tool] = []
        header_arguments: dict[str, Mapping[tuple[str, ...], str]] = {}
        numbers = self._revision is not None and self._revision.era == "handshake"
        for tool in tools:
            try:
                paths = header_paths(tool.input_schema, numbers=numbers)
            except ValueError as problem:
                logger.warning("The tool %r is left out: %s", tool.name, problem)
                continue
            usable.append(tool)
            if paths:
                header_arguments[tool.name] = paths
        self.header_arguments = header_arguments
        return usable

    def withdraw(self, id: object) -> bool:
        """Cancel a request by closing its connection, where the revision has that (2026-07-28, "Cancellation")."""
        posted = self._posted.get(id) if isinstance(id, (int, str)) else None
        revision = self._revision if posted is None else posted.revision
        if revision is None or revision.disconnect != "cancel":
            return False
        if posted is not None:
            self._cancel(posted)
        return True

    async def close(self) -> None:
        """Send the last messages and end the session (2025-11-25 transports, "Session Management")."""
        self._closing = True
        self._gate.open()
        self._unsent.close()
        self._open_posts.close()
        try:
            await self._sender.finish(CLOSE_SECONDS)
            await self._stop_reading()
            if self.session_id is not None:
                await self._end_session(self.session_id)
        finally:
            await self._stop_reading()

    async def _stop_reading(self) -> None:
        tasks = [posted.task for posted in self._posted.values()]
        tasks.extend(self._ending)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._get_stream.stop()

    async def _end_session(self, session: str) -> None:
        self.session_id = None
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                response = await self._requester.send("DELETE", self._session_headers(session))
                response.close()
        except (DovetailError, TimeoutError) as problem:
            logger.debug("The session could not be ended: %s", problem)

    def _send_in_order(self, message: Notification | None, line: bytes) -> None:
        if message is None:
            if self._revision is not None and self._revision.era == "envelope":
                logger.warning("An answer was not sent: the server may not ask anything on this revision")
                return
        elif message.method == _CANCELLED:
            if self.withdraw(message.params.get("requestId")):
                return
        elif message.method == _INITIALIZED:
            self._initialized.clear()
        self._unsent.add(len(line))
        self._sender.put((message, line))

    async def _deliver(self, item: tuple[Notification | None, bytes]) -> None:
        """Post a notification or an answer; one that the server refuses is logged and dropped."""
        message, line = item
        method = None if message is None else message.method
        try:
            await deliver(lambda: self._post(message, line, self.session_id), DELIVER_SECONDS)
        except NotAccepted as problem:
            logger.warning("The server did not accept %s: %s", method or "an answer", problem)
        except (DovetailError, TimeoutError) as problem:
            why = str(problem) or "the server does not accept it"
            logger.warning("%s could not be sent: %s", method or "An answer", why)
        finally:
            self._sent(len(line))
            if method == _INITIALIZED:
                self._open_get_stream()
        if message is not None and method == _CANCELLED:
            # The stream stays open for a moment: the server may still cancel, on it, requests of its own.
            posted = self._posted.get(message.params.get("requestId", ""))
            if posted is not None:
                self._loop.call_later(CLOSE_SECONDS, self._cancel, posted)

    async def _post(self, message: Notification | None, line: bytes, session: str | None) -> None:
        headers = self._post_headers(message, session, self._revision)
        response = await self._requester.send("POST", headers, line)
        try:
            if response.status == 404 and session is not None:
                self._session_ended(session)
            elif response.status >= 300:
                text = str(await read_error(response, self._requester.url, None, self._max_body))
                later = response.status in TRY_AGAIN_STATUSES
                raise NotAccepted(text, try_again=later, retry_after=retry_after(response))
            elif response.status == 200:
                # Some servers send a body where they should not; the connection can be reused once it is read.
                await read_all(response, self._max_body)
        finally:
            response.close()

    def _open_get_stream(self) -> None:
        self._initialized.set()
        if not self._closing and self.ended_session is None:
            reader = SseReader(self._gate, self._max_body, self._receiver.received)
            self._get_stream.start(reader, self.session_id, self._session_ended, self._interrupted)

    async def _run(self, posted: PostedRequest) -> None:
        id, method = posted.request.id, posted.request.method
        try:
            if not self._initialized.is_set() and method != "initialize":
                await self._initialized.wait()
                if self.ended_session is not None:
                    raise SessionEnded(self.ended_session, ran=False)
                posted.session = self.session_id
            if (seconds := _WAIT_FOR_GET_STREAM.get(method)) is not None:
                await self._get_stream.wait_answered(seconds)
            await self._exchange(posted)
        except DovetailError as problem:
            self._receiver.failed(id, problem)
        except Exception as problem:
            logger.exception("Sending %s failed", method)
            self._receiver.failed(id, OutcomeUnknown(f"sending failed: {type(problem).__name__}: {problem}"))
        finally:
            if self._posted.get(id) is posted:
                del self._posted[id]
            self._open_posts.remove(1)
            self._sent(posted.unsent)

    async def _exchange(self, posted: PostedRequest) -> None:
        request = posted.request
        headers = self._post_headers(request, posted.session, posted.revision)
        response = await self._requester.send("POST", headers, posted.line)
        try:
            self._sent(posted.unsent)
            posted.unsent, posted.line = 0, b""
            if response.status >= 300:
                await self._handle_error(posted, response)
                return
            if self._get_stream.gave_up:
                self._open_get_stream()
            kind = media_type(response)
            if request.method == "initialize":
                self._begin_session(response)
            if kind == _JSON:
                await self._read_json(request.id, response)
            elif kind == _EVENTS:
                await self._read_stream(posted, response)
            else:
                raise unexpected_content(response, self._requester.url)
        finally:
            response.close()

    async def _read_json(self, id: Id, response: ClientResponse) -> None:
        try:
            body = await read_all(response, self._max_body, MESSAGE_LIMIT_OPTION)
        except ConnectionLost as problem:
            raise OutcomeUnknown(f"{self._requester.url}: {problem}") from problem
        if self._gate.closed:
            await self._gate.wait_open()
        message = self._receiver.received(body)
        if isinstance(message, list) or not is_answer(message, id):
            # A batch is answered or refused as a whole, by its revision; a request that it left open fails here.
            self._receiver.failed(id, InvalidAnswer("The server answered something else than was asked"))

    async def _read_stream(self, posted: PostedRequest, response: ClientResponse) -> None:
        reader = SseReader(self._gate, self._max_body, self._receiver.received, posted.request.id)
        reason, broken = "the server ended the stream without an answer", False
        try:
            await reader.read(response)
        except ConnectionLost as problem:
            reason, broken = str(problem), True
        if reader.answered:
            return
        response.close()
        revision, session = posted.revision, posted.session
        if revision is None:
            # The answer to initialize, which tells the revision; the session id has come with the headers.
            session = self.session_id
        elif not revision.resumable:
            reader.last_event_id = None
        if reader.last_event_id is None:
            raise OutcomeUnknown(f"{self._requester.url}: {reason}")
        try:
            await GetStream(self._requester, self._session_headers).resume(reader, session, reason, broken=broken)
        except SessionEnded as problem:
            self._session_ended(problem.session)
            raise

    async def _handle_error(self, posted: PostedRequest, response: ClientResponse) -> None:
        if response.status == 404 and posted.session is not None:
            # Whatever the body says, the session is over ("Session Management").
            self._session_ended(posted.session)
            raise SessionEnded(posted.session, ran=False)
        error = await read_error(response, self._requester.url, posted.request.id, self._max_body)
        if isinstance(error, HttpStatus) and error.status in _PROXY_FAILURES:
            raise OutcomeUnknown(str(error)) from error
        if not isinstance(error, bytes):
            raise error
        self._receiver.received(error)

    def _begin_session(self, response: ClientResponse) -> None:
        session = response.headers.get("mcp-session-id")
        if session is not None and not _SESSION_ID.fullmatch(session):
            raise InvalidAnswer("The server gave a session id that is not made of visible ASCII characters")
        self.session_id, self.ended_session = session, None

    def _session_ended(self, session: str) -> None:
        if self.session_id == session:
            self.session_id, self.ended_session = None, session
            self._get_stream.cancel()
            self._interrupted()

    def _interrupted(self) -> None:
        if self.on_interrupted is not None and not self._closing:
            self.on_interrupted()

    def _cancel(self, posted: PostedRequest) -> None:
        posted.task.cancel()
        self._ending.add(posted.task)
        posted.task.add_done_callback(self._ending.discard)

    def _revision_of(self, request: Request) -> Revision | None:
        meta = meta_of(request.params)
        name = None if meta is None else meta.get(VERSION)
        if isinstance(name, str):
            return REVISIONS.get(name)
        return None if request.method == "initialize" else self._revision

    def _session_headers(self, session: str | None) -> dict[str, str]:
        headers: dict[str, str] = {}
        if session is not None:
            headers["mcp-session-id"] = session
        if self._revision is not None:
            headers["mcp-protocol-version"] = self._revision.name
        return headers

    def _post_headers(
        self, message: Request | Notification | None, session: str | None, revision: Revision | None
    ) -> dict[str, str]:
        headers = dict(_POST)
        if session is not None:
            headers["mcp-session-id"] = session
        name = None if revision is None else revision.name
        if message is None:
            if name is not None:
                headers["mcp-protocol-version"] = name
            return headers
        params, paths = message.params, None
        if self.header_arguments and message.method == "tools/call":
            paths = self.header_arguments.get(params.get("name", ""))
            if paths:
                # As they are in the body: an argument may be of any type that is written as a plain JSON value.
                params = {**params, "arguments": msgspec.to_builtins(params.get("arguments"))}
        try:
            headers.update(names.standard_headers(message.method, params, name, paths))
        except ValueError as problem:
            raise LocalError(str(problem)) from None
        return headers

    def _sent(self, size: int) -> None:
        self._unsent.remove(size)


def decode_sent(line: bytes) -> Request | Notification | None:
    """The values of a line that is sent without them; None for an answer, and for a batch, which holds answers only."""
    message: Any = codec.decode(line)
    return message if isinstance(message, (Request, Notification)) else None
