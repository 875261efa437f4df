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
from dovetail.transports.base import Channel, Outlet, RequestChannel
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Failure, Id, Invalid, Message, Notification, Request, Response
from dovetail.wire.lines import TooLong

from .call import Call
from .pending_requests import PendingRequests

logger = logging.getLogger("dovetail")

CLEAN_UP_SECONDS = 1.0
"""How long a closing connection waits for handlers that it has cancelled."""

_LAST_WORDS_SECONDS = 0.1
"""How long the outlet of a call that was stopped stays open for what its handler still has to take back."""

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
        self._request_channel: RequestChannel | None = channel if isinstance(channel, RequestChannel) else None
        self._service = service
        self._trace = trace
        self._loop = asyncio.get_running_loop()
        self._calls: dict[Id, Call] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._resuming: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None
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

    @property
    def mute(self) -> str | None:
        """A channel carries requests both ways."""
        return None

    def finish(self, line: bytes | None) -> None:
        """Send the answer to a request."""
        if line is not None:
            self.send(line)

    def let_go(self, retry: float) -> None:
        """A channel carries all that there is; nobody can come back to it."""

    def send(self, line: bytes, message: Request | Notification | None = None) -> None:
        """Send one encoded message; a channel over HTTP needs the values that it was encoded from as well."""
        if self._trace is not None:
            self._trace("sent", line)
        if message is None or self._request_channel is None:
            self._channel.send(line)
        else:
            self._request_channel.send(line, message)

    def withdraw(self, id: Id) -> bool:
        """Give up a request of ours without a word, where the channel can do that."""
        return self._request_channel is not None and self._request_channel.withdraw(id)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        encoded = None if params is None else codec.encode(params)
        self.send(codec.notification(method, encoded), Notification(method, params or {}))

    async def drained(self) -> None:
        """Wait while the peer lags behind."""
        await self._channel.drained()

    async def finish_calls(self, grace: float, farewell: ProtocolError | None = None) -> None:
        """Let the requests in flight end within the grace period; stop those that have not.

        They end without an answer, or with a farewell, where somebody may come back to ask what became of them.
        """
        try:
            async with asyncio.timeout(grace):
                while self._calls:
                    self._idle = self._loop.create_future()
                    await self._idle
        except TimeoutError:
            logger.warning("%d calls were still running after %g s and were stopped", len(self._calls), grace)
        if farewell is not None:
            for call in self._calls.values():
                call.outlet.finish(_failed(call, farewell))
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
            self.pending.cancel_all("the connection is closed")
            self._gone = "the connection was closed"
        self._stop_calls()
        self.pending.close(self._gone)
        if self._resuming is not None:
            self._resuming.cancel()
        if self._stopping:
            await asyncio.wait(self._stopping, timeout=CLEAN_UP_SECONDS)

    def received(self, line: bytes) -> codec.Decoded | None:
        """Take one line from the channel; the decoded message."""
        if self._closed:
            return None
        if self._trace is not None:
            self._trace("received", line)
        message = codec.decode(line)
        self.take(message, self)
        if self._reading and self._channel.congested:
            if not isinstance(message, _ANSWERS_NOBODY):
                self._wait_for_reader()
        elif self._owed:
            self._owed = 0
        return message

    def overlong(self, line: TooLong) -> None:
        """Refuse a line above the limit, telling whoever can be told."""
        from dovetail.wire.recover_id import recover_from_ends

        seen = recover_from_ends(line.head, line.tail)
        message = f"Message too long: {line.size} bytes"
        self.take(Invalid(seen.id, INVALID_REQUEST, message, seen.reply), self)

    def failed(self, id: Id, problem: Exception) -> None:
        """One request of ours could not be delivered, or its answer is lost."""
        self.pending.fail_one(id, problem)

    def disconnected(self, reason: str | None) -> None:
        """The channel has ended: nobody will answer, so whoever waits is told."""
        if self._gone is None:
            self._gone = reason or "the peer closed the connection"
            self.pending.fail_all(self._gone)
            self._service.disconnected(reason)

    def take(self, message: Message | list[Message], outlet: Outlet) -> None:
        """Take a message, or a batch, that was read; what is said about it goes to the outlet."""
        if self._closed:
            outlet.finish(None)
        elif isinstance(message, list):
            self._batch(message, outlet)
        else:
            self._take(message, outlet)

    def _take(self, message: Message, outlet: Outlet) -> None:
        kind = type(message)
        if kind is Request:
            self._start(message, outlet)  # type: ignore[arg-type]
        elif isinstance(message, Notification):
            self._notified(message)
        elif isinstance(message, Response):
            self.pending.resolve(message.id, message.result)
        elif isinstance(message, Failure):
            self.pending.fail(message)
        elif isinstance(message, Invalid):
            self._invalid(message, outlet)

    def _batch(self, messages: list[Message], outlet: Outlet) -> None:
        if not self._service.batching:
            self._invalid(Invalid(None, INVALID_REQUEST, "Invalid request: this revision has no batches"), outlet)
            return
        batch = Batch(outlet, sum(isinstance(message, Request | Invalid) for message in messages))
        for message in messages:
            self._take(message, batch)
        batch.seal()

    def _invalid(self, message: Invalid, outlet: Outlet) -> None:
        if message.reply or (message.bare and message.id in self.pending):
            self.pending.fail_unreadable(message)
            outlet.finish(None)
            return
        if not self._service.answers_refused(message.id):
            # Said aloud once: who prints to stdout by mistake prints a lot.
            level = logging.DEBUG if self._heard_noise else logging.WARNING
            logger.log(level, "The peer sent something that is no message: %s", message.message)
            self._heard_noise = True
            outlet.finish(None)
            return
        null_id = self._service.null_id
        outlet.finish(codec.failure(message.id, message.code, message.message, null_id=null_id))

    def _start(self, request: Request, outlet: Outlet) -> None:
        id = request.id
        try:
            if id in self._calls:
                raise ProtocolError(INVALID_REQUEST, f"A request with id {id!r} is in flight already")
            if len(self._calls) >= MAX_IN_FLIGHT:
                raise ProtocolError(INTERNAL_ERROR, f"More than {MAX_IN_FLIGHT} requests are in flight")
            call = Call(self, request, self._service.terms_for(request), outlet)
            outcome = self._service.serve(call)
        except ProtocolError as refusal:
            outlet.finish(_refused(id, refusal))
            return
        except Exception:
            logger.exception("Serving %s failed", request.method)
            outlet.finish(_refused(id, _internal_error()))
            return
        if isinstance(outcome, bytes):
            outlet.finish(codec.response(id, outcome))
            return
        if outcome is None:
            outlet.finish(None)
            return
        self._calls[id] = call
        call.task = self._loop.create_task(self._run(call, outcome))

    async def serve_alone(self, call: Call) -> bytes | None:
        """Serve a request in the task that brought it, whatever ids others have; None if it was stopped.

        For transports where each request is a world of its own; who brought it has said in `call.task` where it runs.
        """
        id = call.request.id
        try:
            outcome = self._service.serve(call)
        except ProtocolError as refusal:
            return _failed(call, refusal)
        except Exception:
            logger.exception("Serving %s failed", call.request.method)
            return _failed(call, _internal_error())
        if isinstance(outcome, bytes):
            return codec.response(id, outcome)
        if outcome is None:
            return None
        answer = await self._outcome(call, outcome)
        call.flush()
        call.silent = True
        return answer

    async def _outcome(self, call: Call, work: Work) -> bytes | None:
        """The answer that some work leads to; None if the call was stopped meanwhile."""
        try:
            if call.outlet.congested:
                # Answers for a peer that does not read would pile up.
                await call.outlet.drained()
            answer = codec.response(call.request.id, await work())
        except ProtocolError as refusal:
            answer = _failed(call, refusal)
        except asyncio.CancelledError:
            if call.silent:
                return None
            logger.exception("%s was cancelled by its own handler", call.request.method)
            answer = _failed(call, _internal_error())
        except BaseException:
            # Also SystemExit and KeyboardInterrupt: a handler must not be able to end the process.
            logger.exception("Serving %s failed", call.request.method)
            answer = _failed(call, _internal_error())
        return answer

    async def _run(self, call: Call, work: Work) -> None:
        outlet = call.outlet
        answer = await self._outcome(call, work)
        try:
            if outlet.congested and not call.silent:
                await outlet.drained()
        except asyncio.CancelledError:
            # Ours, if the call was stopped; else the handler's own, which came too late to stop its answer.
            pass
        if not call.silent:
            call.flush()
            self._forget(call)
            outlet.finish(answer)
            if not self._calls:
                # Nobody else is about to answer, so there is nothing to wait for and write together with.
                self._channel.flush()

    def _forget(self, call: Call) -> None:
        call.silent = True
        self._calls.pop(call.request.id, None)
        if not self._calls and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

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
        task = call.task
        if task is None:
            call.outlet.finish(None)
            return
        task.cancel()
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

        def finish(_: object = None) -> None:
            if not ending.cancelled():
                ending.cancel()
                call.outlet.finish(None)

        # Not before its questions are taken back, which go the same way; but a handler may take its time to end.
        ending = self._loop.call_later(_LAST_WORDS_SECONDS, finish)
        task.add_done_callback(finish)

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

    def __init__(self, outlet: Outlet, size: int) -> None:
        self._outlet = outlet
        self._answers: list[bytes] = []
        self._missing = size
        self._sealed = False

    @property
    def congested(self) -> bool:
        """Whether the peer reads more slowly than we write."""
        return self._outlet.congested

    @property
    def mute(self) -> str | None:
        """Why the peer cannot be asked anything here, if it cannot."""
        return self._outlet.mute

    def send(self, line: bytes) -> None:
        """What is said before the answers goes out by itself."""
        self._outlet.send(line)

    def finish(self, line: bytes | None) -> None:
        """One request of the batch was answered, or ended without an answer; the same for what cannot be read."""
        self._missing -= 1
        if line is not None:
            self._answers.append(line)
        self._send_if_complete()

    def let_go(self, retry: float) -> None:
        """Close the connection and have the peer come back for the rest."""
        self._outlet.let_go(retry)

    async def drained(self) -> None:
        """Wait while the peer lags behind."""
        await self._outlet.drained()

    def seal(self) -> None:
        """The whole batch has been read."""
        self._sealed = True
        self._send_if_complete()

    def _send_if_complete(self) -> None:
        if self._sealed and self._missing <= 0:
            self._outlet.finish(codec.batch(self._answers) if self._answers else None)


def _failed(call: Call, error: ProtocolError) -> bytes:
    call.code = call.terms.revision.code_of(error.code)
    return codec.failure(call.request.id, call.code, error.message, error.data, null_id=False)


def _refused(id: Id, error: ProtocolError) -> bytes:
    return codec.failure(id, error.code, error.message, error.data, null_id=False)


def _internal_error() -> ProtocolError:
    return ProtocolError(INTERNAL_ERROR, "Internal error")
