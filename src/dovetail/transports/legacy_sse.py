"""Client's channel over HTTP+SSE, the transport of 2024-11-05: one SSE stream in, POSTs out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from urllib.parse import urljoin

from dovetail.protocol.errors import ConnectionLost, DovetailError, InvalidAnswer, LocalError
from dovetail.protocol.headers import standard_headers
from dovetail.protocol.revisions import Revision
from dovetail.transports.http.client.channel import decode_sent
from dovetail.transports.http.contract import ClientResponse
from dovetail.transports.http.redelivery import TRY_AGAIN_STATUSES, NotAccepted, deliver
from dovetail.transports.http.requester import (
    HttpRequester,
    media_type,
    origin,
    read_error,
    retry_after,
    unexpected_content,
)
from dovetail.wire.jsonrpc import Id, Notification, Request
from dovetail.wire.sse import Event, EventParser, EventTooLong

from .backpressure import ReadGate, UnsentBytes
from .base import MAX_RECEIVED, MESSAGE_LIMIT_OPTION, Receiver, RequestChannel
from .ordered_sender import OrderedSender

logger = logging.getLogger("dovetail")

ENDPOINT_SECONDS = 10.0
"""Seconds that a server may take to send the `endpoint` event, which says where messages go."""

DELIVER_SECONDS = 30.0
"""Seconds that a server may take to accept a notification or a response; later messages wait for it."""

CLOSE_SECONDS = 1.0

MAX_SKIPPED = 64 * 1024
SKIP_SECONDS = 5.0
"""Bytes and seconds of the body of an accepted POST, which means nothing here; then the connection is closed."""

_GET = {"accept": "text/event-stream"}
_POST = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
_INITIALIZED = "notifications/initialized"


class LegacySseChannel(RequestChannel):
    """Channel over HTTP+SSE; it is lost when its SSE stream ends."""

    def __init__(self, requester: HttpRequester, max_event: int = MAX_RECEIVED) -> None:
        self._requester = requester
        self._max_event = max_event
        self._parser = EventParser(max_event)
        self._response: ClientResponse | None = None
        self._endpoint = ""
        self._first_events: list[Event] = []
        self._receiver: Receiver
        self._reader: asyncio.Task[None] | None = None
        self._revision: Revision | None = None
        self._posts: dict[Id, asyncio.Task[None]] = {}
        self._sender = OrderedSender(self._deliver)
        self._initialized = asyncio.Event()
        self._initialized.set()
        self._gate = ReadGate()
        self._unsent = UnsentBytes()
        self._closed = False

    async def connect(self) -> None:
        """Open the stream and learn where messages go (2024-11-05 transports, "HTTP with SSE").

        An endpoint of another origin is refused: our messages and credentials are not for it.
        """
        response = self._response = await self._requester.send("GET", _GET)
        try:
            if response.status != 200:
                problem = await read_error(response, self._requester.url, None, 64 * 1024)
                raise problem if isinstance(problem, Exception) else ConnectionLost("the stream was refused")
            if media_type(response) != "text/event-stream":
                raise unexpected_content(response, self._requester.url)
            async with asyncio.timeout(ENDPOINT_SECONDS):
                await self._learn_endpoint(response)
        except TimeoutError:
            response.close()
            raise ConnectionLost(f"{self._requester.url} did not say where messages go") from None
        except EventTooLong as problem:
            response.close()
            raise InvalidAnswer(f"{problem} ({MESSAGE_LIMIT_OPTION})") from None
        except BaseException:
            response.close()
            raise

    async def _learn_endpoint(self, response: ClientResponse) -> None:
        while chunk := await response.chunk():
            events = [event for event in self._parser.feed(chunk) if event.data]
            if not events:
                continue
            first = events[0]
            if first.name != "endpoint":
                break
            self._endpoint = urljoin(self._requester.url, first.data.decode(errors="replace").strip())
            if origin(self._endpoint) != origin(self._requester.url):
                raise InvalidAnswer(
                    f"{self._requester.url} wants messages sent to {self._endpoint}, which is another server"
                )
            self._first_events = events[1:]
            return
        raise InvalidAnswer(f"{self._requester.url} sent no endpoint event first")

    @property
    def congested(self) -> bool:
        """True if more is on its way to the server than the bounds allow."""
        return self._unsent.congested

    def open(self, receiver: Receiver) -> None:
        """Begin to read the stream."""
        if self._response is None:
            raise LocalError("connect() comes before open()")
        self._receiver = receiver
        self._reader = asyncio.get_running_loop().create_task(self._read(self._response), name="dovetail-sse")

    def agreed(self, revision: Revision) -> None:
        """Send the revision that both sides have agreed on with every POST."""
        self._revision = revision

    def send(self, line: bytes, message: Request | Notification | None = None) -> None:
        """Post one message: requests concurrently, notifications and answers in order."""
        if self._closed:
            return
        self._unsent.add(len(line))
        if message is None:
            message = decode_sent(line)
        if isinstance(message, Request):
            self._posts[message.id] = asyncio.get_running_loop().create_task(self._request(message, line))
            return
        if message is not None and message.method == _INITIALIZED:
            self._initialized.clear()
        self._sender.put((message, line))

    def flush(self) -> None:
        """Do nothing: no message is buffered."""

    async def drained(self) -> None:
        """Wait until the channel is not congested."""
        await self._unsent.drained()

    def pause(self) -> None:
        """Stop reading the stream."""
        self._gate.close()

    def resume(self) -> None:
        """Read again."""
        self._gate.open()

    async def close(self) -> None:
        """Send the last messages and close the stream, which ends the session."""
        self._closed = True
        self._unsent.close()
        try:
            await self._sender.finish(CLOSE_SECONDS)
        finally:
            tasks = [*self._posts.values(), *([self._reader] if self._reader is not None else [])]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            if self._response is not None:
                self._response.close()

    async def _read(self, response: ClientResponse) -> None:
        reason: str | None = "the server ended its stream"
        try:
            self._handle(self._first_events)
            while chunk := await response.chunk():
                self._handle(self._parser.feed(chunk))
                await self._gate.wait_open()
        except EventTooLong as problem:
            self._handle(problem.events)
            reason = f"{problem} ({MESSAGE_LIMIT_OPTION})"
        except DovetailError as problem:
            reason = str(problem)
        finally:
            response.close()
        self._closed = True
        self._unsent.close()
        self._receiver.disconnected(f"{self._requester.url}: {reason}")

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            if event.name == "message" and event.data:
                self._receiver.received(event.data)

    async def _request(self, request: Request, line: bytes) -> None:
        id = request.id
        try:
            if request.method != "initialize":
                await self._initialized.wait()
            error = await self._post(request, id, line)
            if isinstance(error, bytes):
                self._receiver.received(error)
            elif error is not None:
                self._receiver.failed(id, error)
        except DovetailError as problem:
            self._receiver.failed(id, problem)
        finally:
            self._posts.pop(id, None)
            self._sent(len(line))

    async def _deliver(self, item: tuple[Notification | None, bytes]) -> None:
        message, line = item
        method = None if message is None else message.method
        try:
            await deliver(lambda: self._post_once(message, line), DELIVER_SECONDS)
        except NotAccepted as problem:
            logger.warning("The server did not accept %s: %s", method or "an answer", problem)
        except (DovetailError, TimeoutError) as problem:
            why = str(problem) or "the server does not accept it"
            logger.warning("%s could not be sent: %s", method or "An answer", why)
        finally:
            self._sent(len(line))
            if method == _INITIALIZED:
                self._initialized.set()

    async def _post_once(self, message: Notification | None, line: bytes) -> None:
        response = await self._send(message, line)
        try:
            if response.status >= 300:
                text = str(await read_error(response, self._endpoint, None, self._max_event))
                later = response.status in TRY_AGAIN_STATUSES
                raise NotAccepted(text, try_again=later, retry_after=retry_after(response))
            await _skip_body(response)
        finally:
            response.close()

    async def _send(self, message: Request | Notification | None, line: bytes) -> ClientResponse:
        headers = dict(_POST)
        if message is not None:
            name = None if self._revision is None else self._revision.name
            headers.update(standard_headers(message.method, message.params, name))
        return await self._requester.send("POST", headers, line, self._endpoint)

    async def _post(self, message: Request, id: Id, line: bytes) -> bytes | Exception | None:
        """Post a request: None where the server accepted it (the answer comes as an event), else its error."""
        response = await self._send(message, line)
        try:
            if response.status < 300:
                await _skip_body(response)
                return None
            return await read_error(response, self._endpoint, id, self._max_event)
        finally:
            response.close()

    def _sent(self, size: int) -> None:
        self._unsent.remove(size)


async def _skip_body(response: ClientResponse) -> None:
    """Read a short body to its end, so that the connection can be used again; a longer one is closed by the caller."""
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SKIP_SECONDS):
            while size <= MAX_SKIPPED and (chunk := await response.chunk()):
                size += len(chunk)
