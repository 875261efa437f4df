"""The client's end of Streamable HTTP: every message is a POST, and what comes back is an answer or a stream."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.protocol import headers as names
from dovetail.protocol.errors import ConnectionLost, DovetailError, InvalidAnswer, LocalError, SessionEnded
from dovetail.protocol.revisions import REVISIONS, Revision
from dovetail.transports.base import HIGH_WATER, MAX_LINE, Receiver
from dovetail.transports.http.contract import ClientResponse
from dovetail.transports.http.requester import HttpRequester, media_type, read_all, read_error, unexpected_content
from dovetail.transports.message_head import Params, Sent, outline
from dovetail.transports.ordered_sender import OrderedSender
from dovetail.wire.jsonrpc import Id

from .sse_reader import ReadGate, SseReader
from .sse_resume import GetStream

logger = logging.getLogger("dovetail")

MAX_POSTS = 512
FAREWELL_SECONDS = 1.0
"""How long a closing channel waits for its last messages, and then for the end of its session."""

DELIVER_SECONDS = 30.0
"""How long a server may take to accept a notification or an answer, for which those behind it wait."""

LISTEN_SECONDS = 2.0
"""How long after the handshake a request that asks to be told of changes waits until the server can tell."""

ASK_SECONDS = 0.5
"""The same for requests on which the server may ask back: some ask where nobody listens yet, and wait for ever."""

_JSON, _EVENTS = "application/json", "text/event-stream"
_POST = {"content-type": _JSON, "accept": f"{_JSON}, {_EVENTS}"}
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")
_INITIALIZED = "notifications/initialized"
_CANCELLED = "notifications/cancelled"
_NO_PARAMS = Params()
_LISTEN_FIRST = {
    "resources/subscribe": LISTEN_SECONDS,
    **dict.fromkeys(("tools/call", "prompts/get", "resources/read"), ASK_SECONDS),
}


class PostedRequest:
    """A request of ours and what is known about it until its answer has come."""

    __slots__ = ("id", "line", "revision", "sent", "session", "task", "unsent")

    task: asyncio.Task[None]

    def __init__(self, id: Id, sent: Sent, line: bytes, revision: Revision | None, session: str | None) -> None:
        self.id = id
        self.sent = sent
        self.line = line
        self.revision = revision
        self.session = session
        self.unsent = len(line)


class HttpChannel:
    """A channel over Streamable HTTP, on every revision that has it."""

    def __init__(self, courier: HttpRequester, max_body: int = MAX_LINE) -> None:
        self._courier = courier
        self._max_body = max_body
        self._receiver: Receiver
        self._loop: asyncio.AbstractEventLoop
        self._revision: Revision | None = None
        self._exchanges: dict[Id, PostedRequest] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._lane = OrderedSender(self._deliver)
        self._ready = asyncio.Event()
        self._ready.set()
        self._tap = ReadGate()
        self._unsent = 0
        self._drained: asyncio.Event | None = None
        self._closing = False
        self._listener = GetStream(courier, self._headers_of)
        self.session_id: str | None = None
        self.lapsed: str | None = None
        """The session that the server has ended and that none has followed yet."""
        self.mirrored: Mapping[str, Mapping[tuple[str, ...], str]] = {}
        """Which arguments of which tools are repeated in headers."""

    @property
    def congested(self) -> bool:
        """Whether more is on its way to the server than it should be."""
        return (self._unsent > HIGH_WATER or len(self._exchanges) > MAX_POSTS) and not self._closing

    def open(self, receiver: Receiver) -> None:
        """Nothing is sent before there is something to send."""
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()

    def agreed(self, revision: Revision) -> None:
        """Both sides have agreed on a revision."""
        self._revision = revision

    def send(self, line: bytes) -> None:
        """Post one message."""
        if self._closing:
            return
        sent = outline(line)
        if sent.method is None or sent.id is None:
            self._send_in_order(sent, line)
            return
        if self.lapsed is not None and sent.method != "initialize":
            self._receiver.failed(sent.id, SessionEnded(self.lapsed, ran=False))
            return
        session = None if sent.method == "initialize" else self.session_id
        exchange = PostedRequest(sent.id, sent, line, self._revision_of(sent), session)
        self._unsent += exchange.unsent
        self._exchanges[sent.id] = exchange
        exchange.task = self._loop.create_task(self._run(exchange))

    def flush(self) -> None:
        """Nothing is held back."""

    async def drained(self) -> None:
        """Wait until the server has taken enough."""
        while self.congested:
            if self._drained is None:
                self._drained = asyncio.Event()
            await self._drained.wait()

    def pause(self) -> None:
        """Read no more of any answer."""
        self._tap.close()

    def resume(self) -> None:
        """Read again."""
        self._tap.open()

    async def listening(self) -> None:
        """Wait, within bounds, until the server can send what answers no request."""
        await self._listener.answered(LISTEN_SECONDS)

    async def close(self) -> None:
        """Say the last words, end the session (2025-11-25 transports, "Session Management"), and let go."""
        self._closing = True
        self._tap.open()
        self._relieve()
        try:
            await self._lane.finish(FAREWELL_SECONDS)
            await self._stop_reading()
            if self.session_id is not None:
                await self._end_session(self.session_id)
        finally:
            await self._stop_reading()

    async def _stop_reading(self) -> None:
        tasks = [exchange.task for exchange in self._exchanges.values()]
        tasks.extend(self._ending)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._listener.stop()

    async def _end_session(self, session: str) -> None:
        self.session_id = None
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                answer = await self._courier.send("DELETE", self._headers_of(session))
                answer.close()
        except (DovetailError, TimeoutError) as problem:
            logger.debug("The session could not be ended: %s", problem)

    def _headers_of(self, session: str | None) -> dict[str, str]:
        headers: dict[str, str] = {}
        if session is not None:
            headers["mcp-session-id"] = session
        if self._revision is not None:
            headers["mcp-protocol-version"] = self._revision.name
        return headers

    def _revision_of(self, sent: Sent) -> Revision | None:
        meta = sent.params.meta if sent.params is not None else None
        if meta is not None and isinstance(meta.version, str):
            return REVISIONS.get(meta.version)
        return None if sent.method == "initialize" else self._revision

    def _send_in_order(self, sent: Sent, line: bytes) -> None:
        if sent.method == _CANCELLED and sent.params is not None and self.withdraw(sent.params.request_id):
            return
        if self._revision is not None and self._revision.era == "envelope" and sent.method is None:
            logger.warning("An answer was not sent: the server may not ask anything on this revision")
            return
        if sent.method == _INITIALIZED:
            self._ready.clear()
        self._unsent += len(line)
        self._lane.put((sent, line))

    def withdraw(self, id: object) -> bool:
        """Where closing its stream cancels a request, that is all there is to do (2026-07-28, "Cancellation")."""
        exchange = self._exchanges.get(id) if isinstance(id, (int, str)) else None
        revision = self._revision if exchange is None else exchange.revision
        if revision is None or revision.disconnect != "cancel":
            return False
        if exchange is not None:
            self._drop(exchange)
        return True

    def _drop(self, exchange: PostedRequest) -> None:
        exchange.task.cancel()
        self._ending.add(exchange.task)
        exchange.task.add_done_callback(self._ending.discard)

    async def _deliver(self, item: tuple[Sent, bytes]) -> None:
        """Post a notification or an answer; one that is refused is lost, and no more."""
        sent, line = item
        session = self.session_id
        try:
            async with asyncio.timeout(DELIVER_SECONDS):
                await self._post(sent, line, session)
        except (DovetailError, TimeoutError) as problem:
            why = str(problem) or "the server does not take it"
            logger.warning("%s could not be sent: %s", sent.method or "An answer", why)
        finally:
            self._less_unsent(len(line))
            if sent.method == _INITIALIZED:
                self._begin_listening()
        if sent.method == _CANCELLED and sent.params is not None:
            # Nobody waits any more; but the server may still take back, on its stream, what it has asked there.
            exchange = self._exchanges.get(sent.params.request_id)
            if exchange is not None:
                self._loop.call_later(FAREWELL_SECONDS, self._drop, exchange)

    async def _post(self, sent: Sent, line: bytes, session: str | None) -> None:
        answer = await self._courier.send("POST", self._post_headers(sent, session, self._revision), line)
        try:
            if answer.status == 404 and session is not None:
                self._session_ended(session)
            elif answer.status >= 300:
                problem = await read_error(answer, self._courier.url, None, self._max_body)
                logger.warning("The server did not take %s: %s", sent.method or "an answer", problem)
            elif answer.status == 200:
                # Some say more than they should; the connection can be used again once it is read.
                await read_all(answer, self._max_body)
        finally:
            answer.close()

    def _begin_listening(self) -> None:
        self._ready.set()
        if not self._closing and self.lapsed is None:
            stream = SseReader(self._tap, self._max_body, self._receiver.received)
            self._listener.start(stream, self.session_id, self._session_ended)

    async def _run(self, exchange: PostedRequest) -> None:
        id = exchange.id
        try:
            if not self._ready.is_set() and exchange.sent.method != "initialize":
                await self._ready.wait()
                if self.lapsed is not None:
                    raise SessionEnded(self.lapsed, ran=False)
                exchange.session = self.session_id
            if (seconds := _LISTEN_FIRST.get(exchange.sent.method or "")) is not None:
                await self._listener.answered(seconds)
            await self._converse(exchange)
        except DovetailError as problem:
            self._receiver.failed(id, problem)
        except Exception as problem:
            logger.exception("Sending %s failed", exchange.sent.method)
            self._receiver.failed(id, ConnectionLost(f"sending failed: {type(problem).__name__}: {problem}"))
        finally:
            if self._exchanges.get(id) is exchange:
                del self._exchanges[id]
            self._less_unsent(exchange.unsent)

    async def _converse(self, exchange: PostedRequest) -> None:
        headers = self._post_headers(exchange.sent, exchange.session, exchange.revision)
        answer = await self._courier.send("POST", headers, exchange.line)
        try:
            self._less_unsent(exchange.unsent)
            exchange.unsent, exchange.line = 0, b""
            status = answer.status
            if status >= 300:
                await self._refused(exchange, answer)
                return
            if self._listener.gave_up:
                self._begin_listening()
            kind = media_type(answer)
            if exchange.sent.method == "initialize":
                self._begin_session(answer)
            if kind == _JSON:
                body = await read_all(answer, self._max_body)
                if self._tap.closed:
                    await self._tap.flowing()
                self._receiver.received(body)
                self._receiver.failed(exchange.id, InvalidAnswer("The server answered something else than was asked"))
            elif kind == _EVENTS:
                await self._read_stream(exchange, answer)
            else:
                raise unexpected_content(answer, self._courier.url)
        finally:
            answer.close()

    async def _read_stream(self, exchange: PostedRequest, answer: ClientResponse) -> None:
        stream = SseReader(self._tap, self._max_body, self._receiver.received, exchange.id)
        reason = "the server ended the stream without an answer"
        try:
            await stream.read(answer)
        except ConnectionLost as problem:
            reason = str(problem)
        if stream.answered:
            return
        answer.close()
        revision, session = exchange.revision, exchange.session
        if revision is None:
            # The answer to initialize, which tells the revision; the session is there already.
            session = self.session_id
        elif not revision.resumable:
            stream.last = None
        if stream.last is None:
            raise ConnectionLost(f"{self._courier.url}: {reason}")
        try:
            await GetStream(self._courier, self._headers_of).resume(stream, session, reason)
        except SessionEnded as problem:
            self._session_ended(problem.session)
            raise

    async def _refused(self, exchange: PostedRequest, answer: ClientResponse) -> None:
        if answer.status == 404 and exchange.session is not None:
            # Whatever the body says, the session is over ("Session Management").
            self._session_ended(exchange.session)
            raise SessionEnded(exchange.session, ran=False)
        said = await read_error(answer, self._courier.url, exchange.id, self._max_body)
        if not isinstance(said, bytes):
            raise said
        self._receiver.received(said)

    def _begin_session(self, answer: ClientResponse) -> None:
        session = answer.headers.get("mcp-session-id")
        if session is not None and not _SESSION_ID.fullmatch(session):
            raise InvalidAnswer("The server gave a session id that is not made of visible ASCII characters")
        self.session_id, self.lapsed = session, None

    def _session_ended(self, session: str) -> None:
        if self.session_id == session:
            self.session_id, self.lapsed = None, session
            self._listener.leave()

    def _post_headers(self, sent: Sent, session: str | None, revision: Revision | None) -> dict[str, str]:
        headers = dict(_POST)
        if session is not None:
            headers["mcp-session-id"] = session
        name = None if revision is None else revision.name
        if sent.method is None:
            if name is not None:
                headers["mcp-protocol-version"] = name
            return headers
        params = sent.params or _NO_PARAMS
        said: dict[str, Any] = {"name": params.name, "uri": params.uri, "taskId": params.task_id}
        paths = self.mirrored.get(params.name) if sent.method == "tools/call" and self.mirrored else None
        if paths:
            said["arguments"] = msgspec.json.decode(params.arguments)
        try:
            headers.update(names.standard_headers(sent.method, said, name, paths))
        except ValueError as problem:
            raise LocalError(str(problem)) from None
        return headers

    def _less_unsent(self, size: int) -> None:
        self._unsent -= size
        if self._drained is not None and not self.congested:
            self._relieve()

    def _relieve(self) -> None:
        if self._drained is not None:
            self._drained.set()
            self._drained = None
