"""One connection, seen from either side: requests both ways, each answered once, cancelled or failed.

The connection reads through callbacks and starts one task a request; there is no reader task and no
queue. What a message means is up to the `Service` that it was given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, TypeAlias

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST, ProtocolError
from dovetail.protocol.terms import Terms
from dovetail.transports.base import Channel
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Failure, Id, Invalid, Message, Notification, Request, Response
from dovetail.wire.lines import TooLong

from .call import Call
from .pending import PendingRequests

logger = logging.getLogger("dovetail")

CLEAN_UP_SECONDS = 1.0
"""How long a closing connection waits for handlers that it has cancelled."""

MAX_OWED = 4096
"""Answers that may pile up for a peer that does not read, while we wait for its answers ourselves."""

MAX_IN_FLIGHT = 512
"""Requests served at once on one connection; more are refused, not queued."""

_ANSWERS_NOBODY = (Notification, Response, Failure)

Work: TypeAlias = "Callable[[], Awaitable[bytes]]"
Direction: TypeAlias = Literal["sent", "received"]
Trace: TypeAlias = "Callable[[Direction, bytes], None]"


class Service(Protocol):
    """What one side does with the messages of its connection."""

    @property
    def null_id(self) -> bool:
        """Whether an error without a readable id carries `id: null`."""
        ...

    @property
    def batching(self) -> bool:
        """Whether the agreed revision knows batches."""
        ...

    def answers_refused(self, id: Id | None) -> bool:
        """Whether a message that cannot be taken gets an error, given the id that could be read in it."""
        ...

    @property
    def waits_for_reader(self) -> bool:
        """Whether it reads no more while its answers are not read, even when it waits for answers itself."""
        ...

    def terms_for(self, request: Request) -> Terms:
        """The terms to serve this request under; raises `ProtocolError` to refuse it."""
        ...

    def serve(self, call: Call) -> bytes | Work | None:
        """The result as JSON bytes, at once, or the work that leads to it; raises `ProtocolError`.

        None leaves the request without an answer, where the revision forbids one.
        """
        ...

    def notified(self, notification: Notification) -> None:
        """A notification that is not about a request of this connection."""
        ...

    def disconnected(self, reason: str | None) -> None:
        """The peer is gone."""
        ...


class Connection:
    """Runs the messages of one channel."""

    def __init__(self, channel: Channel, service: Service, trace: Trace | None = None) -> None:
        self._channel = channel
        self._service = service
        self._trace = trace
        self._loop = asyncio.get_running_loop()
        self._calls: dict[Id, Call] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._resuming: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._reading = True
        self._gone: str | None = None
        self._closed = False
        self._heard_noise = False
        self._owed = 0
        self.pending = PendingRequests(self)

    @property
    def service(self) -> Service:
        """Who takes the messages of this connection."""
        return self._service

    @property
    def congested(self) -> bool:
        """Whether the peer reads more slowly than we write."""
        return self._channel.congested

    @property
    def gone(self) -> str | None:
        """Why the peer is gone, once it is."""
        return self._gone

    def open(self) -> None:
        """Begin to read."""
        self._channel.open(self)

    def send(self, line: bytes) -> None:
        """Send one encoded message."""
        if self._trace is not None:
            self._trace("sent", line)
        self._channel.send(line)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        self.send(codec.notification(method, None if params is None else codec.encode(params)))

    async def drained(self) -> None:
        """Wait while the peer lags behind."""
        await self._channel.drained()

    async def finish_calls(self, grace: float) -> None:
        """Let the requests in flight end within the grace period; stop those that have not."""
        try:
            async with asyncio.timeout(grace):
                await self._idle.wait()
        except TimeoutError:
            logger.warning("%d calls were still running after %g s and were stopped", len(self._calls), grace)
        self._stop_calls()

    async def close(self) -> None:
        """Stop everything, fail what waits, and close the channel."""
        try:
            await self.stop()
        finally:
            await self._channel.close()

    async def stop(self) -> None:
        """Stop everything and fail what waits; handlers get a moment to clean up."""
        self._closed = True
        if self._gone is None:
            self.pending.give_up("the connection is closed")
            self._gone = "the connection was closed"
        self._stop_calls()
        self.pending.close(self._gone)
        if self._resuming is not None:
            self._resuming.cancel()
        if self._stopping:
            await asyncio.wait(self._stopping, timeout=CLEAN_UP_SECONDS)

    def received(self, line: bytes) -> None:
        """Take one line from the channel."""
        if self._closed:
            return
        if self._trace is not None:
            self._trace("received", line)
        message = codec.decode(line)
        if isinstance(message, list):
            self._batch(message)
        else:
            self._take(message, None)
        if self._reading and self._channel.congested:
            if not isinstance(message, _ANSWERS_NOBODY):
                self._wait_for_reader()
        elif self._owed:
            self._owed = 0

    def overlong(self, line: TooLong) -> None:
        """Refuse a line above the limit, telling whoever can be told."""
        from dovetail.wire.salvage import outline_of_ends

        seen = outline_of_ends(line.head, line.tail)
        message = f"Message too long: {line.size} bytes"
        self._take(Invalid(seen.id, INVALID_REQUEST, message, seen.reply), None)

    def disconnected(self, reason: str | None) -> None:
        """The channel has ended: nobody will answer, so whoever waits is told."""
        if self._gone is None:
            self._gone = reason or "the peer closed the connection"
            self.pending.fail_all(self._gone)
            self._service.disconnected(reason)

    def _take(self, message: Message, batch: Batch | None) -> None:
        kind = type(message)
        if kind is Request:
            self._start(message, batch)  # type: ignore[arg-type]
        elif isinstance(message, Notification):
            self._notified(message)
        elif isinstance(message, Response):
            self.pending.resolve(message.id, message.result)
        elif isinstance(message, Failure):
            self.pending.fail(message)
        elif isinstance(message, Invalid):
            self._invalid(message, batch)

    def _batch(self, messages: list[Message]) -> None:
        if not self._service.batching:
            self._invalid(
                Invalid(None, INVALID_REQUEST, "Invalid request: this revision has no batches"), None
            )
            return
        batch = Batch(self)
        for message in messages:
            self._take(message, batch)
        batch.seal()

    def _invalid(self, message: Invalid, batch: Batch | None) -> None:
        if message.reply or (message.bare and message.id in self.pending):
            self.pending.garbled(message)
            return
        if not self._service.answers_refused(message.id):
            # Said aloud once: who prints to stdout by mistake prints a lot.
            level = logging.DEBUG if self._heard_noise else logging.WARNING
            logger.log(level, "The peer sent something that is no message: %s", message.message)
            self._heard_noise = True
            return
        null_id = self._service.null_id
        answer = codec.failure(message.id, message.code, message.message, null_id=null_id)
        self._answer(answer, batch)

    def _start(self, request: Request, batch: Batch | None) -> None:
        id = request.id
        try:
            if id in self._calls:
                raise ProtocolError(INVALID_REQUEST, f"A request with id {id!r} is in flight already")
            if len(self._calls) >= MAX_IN_FLIGHT:
                raise ProtocolError(INTERNAL_ERROR, f"More than {MAX_IN_FLIGHT} requests are in flight")
            call = Call(self, request, self._service.terms_for(request))
            outcome = self._service.serve(call)
        except ProtocolError as refusal:
            self._answer(_failed(id, refusal), batch)
            return
        except Exception:
            logger.exception("Serving %s failed", request.method)
            self._answer(_failed(id, _internal_error()), batch)
            return
        if isinstance(outcome, bytes):
            self._answer(codec.response(id, outcome), batch)
            return
        if outcome is None:
            return
        self._calls[id] = call
        self._idle.clear()
        call.task = self._loop.create_task(self._run(call, outcome, batch))
        if batch is not None:
            batch.expect(call.task)

    async def _run(self, call: Call, work: Work, batch: Batch | None) -> None:
        id = call.request.id
        try:
            if self._channel.congested:
                # Answers for a peer that does not read would pile up.
                await self._channel.drained()
            answer = codec.response(id, await work())
        except ProtocolError as refusal:
            answer = _failed(id, refusal)
        except asyncio.CancelledError:
            if call.silent:
                return
            logger.exception("%s was cancelled by its own handler", call.request.method)
            answer = _failed(id, _internal_error())
        except BaseException:
            # Also SystemExit and KeyboardInterrupt: a handler must not be able to end the process.
            logger.exception("Serving %s failed", call.request.method)
            answer = _failed(id, _internal_error())
        try:
            if self._channel.congested and not call.silent:
                await self._channel.drained()
        except asyncio.CancelledError:
            # Ours, if the call was stopped; else the handler's own, which came too late to stop its answer.
            pass
        if not call.silent:
            call.flush()
            self._forget(call)
            self._answer(answer, batch, call.task)
            if not self._calls:
                # Nobody else is about to answer, so there is nothing to wait for and write together with.
                self._channel.flush()

    def _forget(self, call: Call) -> None:
        call.silent = True
        self._calls.pop(call.request.id, None)
        if not self._calls:
            self._idle.set()

    def _answer(self, line: bytes, batch: Batch | None, task: asyncio.Task[None] | None = None) -> None:
        if batch is None:
            self.send(line)
        else:
            batch.add(line, task)

    def _notified(self, notification: Notification) -> None:
        method, params = notification.method, notification.params
        try:
            if method == "notifications/cancelled":
                self._cancelled(params)
            elif method == "notifications/progress":
                self.pending.progress(params)
            else:
                self._service.notified(notification)
        except Exception:
            logger.exception("Taking %s failed", method)

    def _cancelled(self, params: dict[str, Any]) -> None:
        """Stop a request that the peer gave up; one that is unknown or finished is ignored."""
        id = params.get("requestId")
        call = self._calls.get(id) if type(id) is int or type(id) is str else None
        if call is None:
            self._service.notified(Notification("notifications/cancelled", params))
            return
        self._stop(call)

    def _stop(self, call: Call) -> None:
        self._forget(call)
        if call.task is not None:
            call.task.cancel()
            self._stopping.add(call.task)
            call.task.add_done_callback(self._stopping.discard)

    def _stop_calls(self) -> None:
        for call in list(self._calls.values()):
            self._stop(call)

    def _wait_for_reader(self) -> None:
        """Read no more until the peer has read what we wrote: a slow reader slows the writer.

        Two sides that wait for each other would wait forever, so one with requests of its own does not wait,
        unless the peer asks and asks without ever reading: then the timeout of those requests ends it.
        """
        if self.pending and not self._service.waits_for_reader and self._owed < MAX_OWED:
            self._owed += 1
            return
        self._reading = False
        self._channel.pause()
        self._resuming = self._loop.create_task(self._resume())

    async def _resume(self) -> None:
        await self._channel.drained()
        self._reading = True
        if not self._closed:
            self._channel.resume()


class Batch:
    """The answers to a batch, sent together when the last one is there (2025-03-26, "Batching")."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._answers: list[bytes] = []
        self._open: set[asyncio.Task[None]] = set()
        self._sealed = False

    def expect(self, task: asyncio.Task[None]) -> None:
        """One more answer will come before this task ends, or none if its call is cancelled."""
        self._open.add(task)
        task.add_done_callback(self._ended)

    def add(self, line: bytes, task: asyncio.Task[None] | None) -> None:
        """An answer that was there at once, or that this task has brought."""
        self._answers.append(line)
        self._ended(task)

    def _ended(self, task: asyncio.Task[None] | None) -> None:
        if task is not None:
            self._open.discard(task)
        self._send_if_complete()

    def seal(self) -> None:
        """The whole batch has been read."""
        self._sealed = True
        self._send_if_complete()

    def _send_if_complete(self) -> None:
        if self._sealed and not self._open and self._answers:
            self._connection.send(codec.batch(self._answers))
            self._answers = []


def _failed(id: Id, error: ProtocolError) -> bytes:
    return codec.failure(id, error.code, error.message, error.data, null_id=False)


def _internal_error() -> ProtocolError:
    return ProtocolError(INTERNAL_ERROR, "Internal error")
