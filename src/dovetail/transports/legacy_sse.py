"""The client's end of HTTP+SSE, the transport of 2024-11-05: one stream of events in, POSTs out."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import urljoin

from dovetail.protocol.errors import ConnectionLost, DovetailError, InvalidAnswer, LocalError
from dovetail.protocol.headers import standard_headers
from dovetail.protocol.revisions import Revision
from dovetail.transports.http.contract import ClientResponse
from dovetail.transports.http.requester import HttpRequester, media_type, origin, read_error, unexpected_content
from dovetail.wire.jsonrpc import Id
from dovetail.wire.sse import Event, EventParser, EventTooLong

from .base import HIGH_WATER, MAX_LINE, Receiver
from .message_head import Params, Sent, outline
from .ordered_sender import OrderedSender

logger = logging.getLogger("dovetail")

ENDPOINT_SECONDS = 10.0
"""How long a server may take to say where messages go."""

DELIVER_SECONDS = 30.0
"""How long a server may take to accept a notification or an answer, for which those behind it wait."""

FAREWELL_SECONDS = 1.0

_GET = {"accept": "text/event-stream"}
_POST = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
_INITIALIZED = "notifications/initialized"


class LegacySseChannel:
    """A channel over HTTP+SSE; when its stream of events ends, it is lost."""

    def __init__(self, courier: HttpRequester, max_event: int = MAX_LINE) -> None:
        self._courier = courier
        self._max_event = max_event
        self._parser = EventParser(max_event)
        self._answer: ClientResponse | None = None
        self._endpoint = ""
        self._early: list[Event] = []
        self._receiver: Receiver
        self._reader: asyncio.Task[None] | None = None
        self._revision: Revision | None = None
        self._posts: dict[Id, asyncio.Task[None]] = {}
        self._lane = OrderedSender(self._deliver)
        self._ready = asyncio.Event()
        self._ready.set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._unsent = 0
        self._drained = asyncio.Event()
        self._closed = False

    async def connect(self) -> None:
        """Open the stream and learn where messages go (2024-11-05 transports, "HTTP with SSE").

        An endpoint of another origin is refused: our messages and credentials are not for it.
        """
        answer = self._answer = await self._courier.send("GET", _GET)
        try:
            if answer.status != 200:
                problem = await read_error(answer, self._courier.url, None, 64 * 1024)
                raise problem if isinstance(problem, Exception) else ConnectionLost("the stream was refused")
            if media_type(answer) != "text/event-stream":
                raise unexpected_content(answer, self._courier.url)
            async with asyncio.timeout(ENDPOINT_SECONDS):
                await self._learn_endpoint(answer)
        except TimeoutError:
            answer.close()
            raise ConnectionLost(f"{self._courier.url} did not say where messages go") from None
        except EventTooLong as problem:
            answer.close()
            raise InvalidAnswer(str(problem)) from None
        except BaseException:
            answer.close()
            raise

    async def _learn_endpoint(self, answer: ClientResponse) -> None:
        while chunk := await answer.chunk():
            events = [event for event in self._parser.feed(chunk) if event.data]
            if not events:
                continue
            first = events[0]
            if first.name != "endpoint":
                break
            self._endpoint = urljoin(self._courier.url, first.data.decode(errors="replace").strip())
            if origin(self._endpoint) != origin(self._courier.url):
                raise InvalidAnswer(
                    f"{self._courier.url} wants messages sent to {self._endpoint}, which is another server"
                )
            self._early = events[1:]
            return
        raise InvalidAnswer(f"{self._courier.url} sent no endpoint event first")

    @property
    def congested(self) -> bool:
        """Whether more is on its way to the server than it should be."""
        return self._unsent > HIGH_WATER and not self._closed

    def open(self, receiver: Receiver) -> None:
        """Begin to read."""
        if self._answer is None:
            raise LocalError("connect() comes before open()")
        self._receiver = receiver
        self._reader = asyncio.get_running_loop().create_task(self._read(self._answer), name="dovetail-sse")

    def agreed(self, revision: Revision) -> None:
        """Both sides have agreed on a revision."""
        self._revision = revision

    def send(self, line: bytes) -> None:
        """Post one message."""
        if self._closed:
            return
        self._unsent += len(line)
        sent = outline(line)
        if sent.id is None or sent.method is None:
            if sent.method == _INITIALIZED:
                self._ready.clear()
            self._lane.put((sent, line))
        else:
            self._posts[sent.id] = asyncio.get_running_loop().create_task(self._request(sent, sent.id, line))

    def flush(self) -> None:
        """Nothing is held back."""

    async def drained(self) -> None:
        """Wait until the server has taken enough."""
        while self.congested:
            self._drained.clear()
            await self._drained.wait()

    def pause(self) -> None:
        """Read no more."""
        self._flowing.clear()

    def resume(self) -> None:
        """Read again."""
        self._flowing.set()

    async def close(self) -> None:
        """Say the last words and close the stream, which ends the session."""
        self._closed = True
        self._drained.set()
        try:
            await self._lane.finish(FAREWELL_SECONDS)
        finally:
            tasks = [*self._posts.values(), *([self._reader] if self._reader is not None else [])]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            if self._answer is not None:
                self._answer.close()

    async def _read(self, answer: ClientResponse) -> None:
        reason: str | None = "the server ended its stream"
        try:
            self._take(self._early)
            while chunk := await answer.chunk():
                self._take(self._parser.feed(chunk))
                if not self._flowing.is_set():
                    await self._flowing.wait()
        except EventTooLong as problem:
            self._take(problem.events)
            reason = str(problem)
        except DovetailError as problem:
            reason = str(problem)
        finally:
            answer.close()
        self._closed = True
        self._drained.set()
        self._receiver.disconnected(f"{self._courier.url}: {reason}")

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if event.name == "message" and event.data:
                self._receiver.received(event.data)

    async def _request(self, sent: Sent, id: Id, line: bytes) -> None:
        try:
            if sent.method != "initialize":
                await self._ready.wait()
            said = await self._post(sent, id, line)
            if isinstance(said, bytes):
                self._receiver.received(said)
            elif said is not None:
                self._receiver.failed(id, said)
        except DovetailError as problem:
            self._receiver.failed(id, problem)
        finally:
            self._posts.pop(id, None)
            self._sent(len(line))

    async def _deliver(self, item: tuple[Sent, bytes]) -> None:
        sent, line = item
        try:
            async with asyncio.timeout(DELIVER_SECONDS):
                problem = await self._post(sent, None, line)
            if problem is not None:
                logger.warning("The server did not take %s: %s", sent.method or "an answer", problem)
        except (DovetailError, TimeoutError) as problem:
            why = str(problem) or "the server does not take it"
            logger.warning("%s could not be sent: %s", sent.method or "An answer", why)
        finally:
            self._sent(len(line))
            if sent.method == _INITIALIZED:
                self._ready.set()

    async def _post(self, sent: Sent, id: Id | None, line: bytes) -> bytes | Exception | None:
        """Nothing where the message was taken: the answer comes as an event."""
        headers = dict(_POST)
        if sent.method is not None:
            params = sent.params or Params()
            said = {"name": params.name, "uri": params.uri, "taskId": params.task_id}
            name = None if self._revision is None else self._revision.name
            headers.update(standard_headers(sent.method, said, name))
        answer = await self._courier.send("POST", headers, line, self._endpoint)
        try:
            if answer.status < 300:
                # Read to its end, so that the connection can be used again.
                while await answer.chunk():
                    pass
                return None
            return await read_error(answer, self._endpoint, id, self._max_event)
        finally:
            answer.close()

    def _sent(self, size: int) -> None:
        self._unsent -= size
        if not self.congested:
            self._drained.set()
