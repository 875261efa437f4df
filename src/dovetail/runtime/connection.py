"""One connection, seen from either side: drives the JSON-RPC peer (`protocol/peer`) over a channel.

The connection reads through callbacks and starts one task a request; there is no reader task. Requests wait in a queue
only above the bound on requests in flight. The meaning of a request is up to the `Service` that the connection was
given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from dovetail.protocol.errors import INVALID_REQUEST, ProtocolError
from dovetail.protocol.peer import BatchReply, Peer, PeerAction
from dovetail.protocol.terms import Terms
from dovetail.text.redact import redact_text
from dovetail.text.sanitize import clean_text
from dovetail.transports.base import MessageSink, Reader, RequestChannel, Sender
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Failure, Id, Invalid, Message, Notification, Request, Response
from dovetail.wire.lines import TooLong

from .call import Call
from .pending_requests import PendingRequests
from .serve import Outcome, Work, begin, encode_error, serve

logger = logging.getLogger("dovetail")

CLEAN_UP_SECONDS = 1.0
"""Seconds that a closing connection waits for handlers that it has cancelled."""

_CANCELLATION_SECONDS = 0.1
"""Seconds that the sink of a cancelled call stays open for the cancellations that its handler still sends."""

_STARTED_AT_ONCE = 64
"""Waiting requests that are started before other work gets a turn of the event loop."""

MAX_UNREAD_ANSWERS = 4096
"""Answers that may pile up for a peer that does not read, while we wait for its answers ourselves."""

_SHOWN = 200
"""Bytes of a line that is no message that the log shows."""

_NEEDS_NO_ANSWER = (Notification, Response, Failure)

Direction: TypeAlias = Literal["sent", "received"]
Trace: TypeAlias = "Callable[[Direction, bytes], None]"


class WaitingRequest(NamedTuple):
    """A request that waits for its turn, as text: decoded, it may take many times the memory."""

    line: bytes
    sink: MessageSink
    terms: Terms


class Service(Protocol):
    """The application on one side of a connection: admits and dispatches requests, receives notifications."""

    @property
    def null_id(self) -> bool:
        """True if an error without a readable id carries `id: null`."""
        ...

    @property
    def batching(self) -> bool:
        """True if the negotiated revision has batches."""
        ...

    def answers_invalid(self, id: Id | None) -> bool:
        """True if a message that is no valid request gets an error, given the id that could be read in it."""
        ...

    @property
    def waits_for_reader(self) -> bool:
        """True if it stops reading while its answers are not read, even when it waits for answers itself."""
        ...

    def admit(self, request: Request, sink: MessageSink, connection: Connection, terms: Terms | None) -> Call:
        """Decide the terms of a request, unless the transport has, and make its call; raises `ProtocolError`."""
        ...

    def dispatch(self, call: Any) -> Outcome:
        """The result as JSON bytes, at once, or the work that leads to it; raises `ProtocolError`.

        None leaves the request without an answer, where the revision forbids one.
        """
        ...

    def notified(self, notification: Notification) -> None:
        """Receive a notification that is not about a request of this connection."""
        ...

    def disconnected(self, reason: str | None) -> None:
        """The peer is gone."""
        ...


class Connection:
    """Runs the messages of one channel; it is the message sink of requests that share the channel."""

    def __init__(
        self,
        sender: Sender,
        service: Service,
        *,
        reader: Reader | None = None,
        trace: Trace | None = None,
        limit_option: str | None = None,
        peer_name: str = "The peer",
        defer_warning: bool = False,
        raw_results: bool = False,
    ) -> None:
        """Drive a channel; without a reader, as over HTTP, whoever receives the messages calls `receive`.

        `limit_option` is the option that sets the limit of the channel, for the error about a message above it.
        `peer_name` begins sentences about the peer in the log. With `defer_warning` the warning about a line that is no
        message waits for `log_deferred_warning`. With `raw_results`, a result is decoded only if its request wants it.
        """
        self._sender = sender
        self._reader = reader
        self._request_channel: RequestChannel | None = sender if isinstance(sender, RequestChannel) else None
        self._service = service
        self._trace = trace
        self._raw_results = raw_results
        self._limit_option = limit_option
        self._peer_name = peer_name
        self._invalid_line = b""
        self._loop = asyncio.get_running_loop()
        self._peer: Peer[Call, Any] = Peer()
        self._cancelling: set[asyncio.Task[None]] = set()
        self._resuming: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None
        self._reading = True
        self._gone: str | None = None
        self._closed = False
        self._warned = False
        self._defer_warning = defer_warning
        self._deferred_warning: str | None = None
        self._unread_answers = 0
        self._starting = False
        self.pending = PendingRequests(self, self._peer)

    @property
    def congested(self) -> bool:
        """True if the peer reads more slowly than we write."""
        return self._sender.congested

    @property
    def gone(self) -> str | None:
        """Why the peer is gone, once it is."""
        return self._gone

    @property
    def no_requests(self) -> str | None:
        """A channel carries requests both ways."""
        return None

    def name_requests(self, prefix: str) -> None:
        """Begin the ids of our requests with a prefix, by which other processes know where an answer belongs."""
        self._peer.id_prefix = prefix

    def serves(self, id: Id) -> bool:
        """True if a request of the peer is being served, or waits for it."""
        return id in self._peer.incoming or id in self._peer.waiting

    def open(self) -> None:
        """Begin to read."""
        if self._reader is not None:
            self._reader.open(self)

    def send(self, line: bytes, message: Request | Notification | None = None) -> None:
        """Send one encoded message; a channel over HTTP needs the values that it was encoded from as well."""
        if self._trace is not None:
            self._trace("sent", line)
        if message is None or self._request_channel is None:
            self._sender.send(line)
        else:
            self._request_channel.send(line, message)

    def finish(self, line: bytes | None) -> None:
        """Send the answer to a request."""
        if line is not None:
            self.send(line)

    def disconnect(self, retry: float) -> None:
        """Nothing to do: the channel is not resumable."""

    def withdraw(self, id: Id) -> bool:
        """Abandon a request of ours without a message, where the channel can do that."""
        return self._request_channel is not None and self._request_channel.withdraw(id)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        encoded = None if params is None else codec.encode(params)
        self.send(codec.notification(method, encoded), Notification(method, params or {}))

    async def drained(self) -> None:
        """Wait while the peer lags behind."""
        await self._sender.drained()

    async def finish_calls(self, grace: float, farewell: ProtocolError | None = None) -> None:
        """Let the calls in flight end within the grace period; cancel those that have not.

        They end without an answer, or with the farewell error, where the client may come back for the outcome.
        """
        calls, waiting = self._peer.incoming, self._peer.waiting
        try:
            async with asyncio.timeout(grace):
                while calls or waiting:
                    self._idle = self._loop.create_future()
                    await self._idle
        except TimeoutError:
            if calls:
                count, were = ("1 call", "was") if len(calls) == 1 else (f"{len(calls)} calls", "were")
                logger.warning("%s %s still running after %g s and %s stopped", count, were, grace, were)
            if waiting:
                count, were = ("1 request", "was") if len(waiting) == 1 else (f"{len(waiting)} requests", "were")
                logger.warning("%s %s still waiting after %g s and %s dropped", count, were, grace, were)
        if farewell is not None:
            for call in calls.values():
                call.sink.finish(encode_error(call, farewell))
        self._cancel_calls(farewell)

    async def close(self) -> None:
        """Stop everything, fail what waits, and close the channel."""
        try:
            await self.stop()
        finally:
            await self._sender.close()

    async def stop(self) -> None:
        """Stop everything and fail what waits; handlers get a moment to clean up."""
        self._closed = True
        if self._gone is None:
            self.pending.cancel_all("the connection is closed")
            self._gone = "the connection was closed"
        self._cancel_calls()
        self.pending.close(self._gone)
        if self._resuming is not None:
            self._resuming.cancel()
        if self._cancelling:
            await asyncio.wait(self._cancelling, timeout=CLEAN_UP_SECONDS)

    def received(self, line: bytes) -> codec.Decoded | None:
        """Handle one line from the channel; returns the decoded message, for channels that need to look at it."""
        if self._closed:
            return None
        if self._trace is not None:
            self._trace("received", line)
        message = codec.decode(line, raw_result=self._raw_results)
        if isinstance(message, Invalid):
            self._invalid_line = line[:_SHOWN]
        self.receive(message, self, None, line)
        if self._reading and self._sender.congested:
            if not isinstance(message, _NEEDS_NO_ANSWER):
                self._wait_for_reader()
        elif self._unread_answers:
            self._unread_answers = 0
        return message

    def overlong(self, line: TooLong) -> None:
        """Refuse a line above the limit, with an error to its sender where the id can be found."""
        from dovetail.wire.recover_id import recover_from_ends

        seen = recover_from_ends(line.head, line.tail)
        message = f"Message too long: {line.size} bytes"
        if line.limit is not None:
            option = "" if self._limit_option is None else f" ({self._limit_option})"
            message += f", and the limit is {line.limit}{option}"
        self.receive(Invalid(seen.id, INVALID_REQUEST, message, seen.reply, notification=seen.notification), self)

    def failed(self, id: Id, problem: Exception) -> None:
        """One request of ours could not be delivered, or its answer is lost."""
        self.pending.fail_one(id, problem)

    def disconnected(self, reason: str | None) -> None:
        """The channel has ended: every request that waits for an answer fails."""
        if self._gone is None:
            self._gone = reason or "the peer closed the connection"
            self.pending.fail_all(self._gone)
            self._service.disconnected(reason)

    def receive(
        self,
        message: Message | list[Message],
        sink: MessageSink,
        terms: Terms | None = None,
        line: bytes | None = None,
    ) -> None:
        """Handle a decoded message, or a batch; messages about it go to the sink.

        `terms` are those of its requests where the transport has admitted them already; `line` is its text, if known.
        """
        if self._closed:
            sink.finish(None)
        elif isinstance(message, list):
            self._receive_batch(message, sink, terms)
        elif (action := self._peer.receive(message)) is PeerAction.SERVE:
            self._serve(message, sink, terms)  # type: ignore[arg-type]
        elif action is PeerAction.WAIT:
            self._wait(message, sink, terms, line)  # type: ignore[arg-type]
        else:
            self._react(action, message, sink)

    def _react(self, action: PeerAction, message: Message, sink: MessageSink) -> None:
        """Handle a message that is no request to serve."""
        match message:
            case Request():
                sink.finish(_refused(message.id, self._peer.refusal(action, message.id)))
            case Notification():
                self._notified(action, message)
            case Response():
                self.pending.resolve(message.id, message.result)
            case Failure():
                self.pending.fail(message)
            case Invalid() if action is PeerAction.FAIL_UNREADABLE:
                self.pending.fail_unreadable(message)
                sink.finish(None)
            case Invalid() if action is PeerAction.IGNORE:
                self._log_invalid(message)
                sink.finish(None)
            case Invalid():
                self._reject(message, sink)

    def _receive_batch(self, messages: list[Message], sink: MessageSink, terms: Terms | None) -> None:
        if not (self._service.batching if terms is None else terms.revision.batching):
            self._reject(Invalid(None, INVALID_REQUEST, "Invalid request: this revision has no batches"), sink)
            return
        batch = BatchSink(sink, messages)
        for message in messages:
            self.receive(message, batch, terms)
        batch.seal()

    def _reject(self, message: Invalid, sink: MessageSink) -> None:
        if self._service.answers_invalid(message.id):
            null_id = self._service.null_id
            sink.finish(codec.failure(message.id, message.code, message.message, null_id=null_id))
            return
        self._log_invalid(message)
        sink.finish(None)

    def _log_invalid(self, message: Invalid) -> None:
        # Logged once as a warning: a server that prints to stdout by mistake prints a lot.
        level = logging.DEBUG if self._warned else logging.WARNING
        shown, self._invalid_line = self._invalid_line, b""
        quoted = f": {redact_text(clean_text(shown.decode(errors='replace')))!r}" if shown else ""
        text = f"{self._peer_name} sent something that is no message ({message.message}){quoted}"
        if self._defer_warning and not self._warned:
            self._deferred_warning = text
        else:
            logger.log(level, "%s", text)
        self._warned = True

    def log_deferred_warning(self) -> None:
        """Log the warning that was deferred, if any, and further ones at once."""
        text, self._deferred_warning, self._defer_warning = self._deferred_warning, None, False
        if text is not None:
            logger.warning("%s", text)

    def _wait(self, request: Request, sink: MessageSink, terms: Terms | None, line: bytes | None) -> None:
        """Put a request into the queue, with the terms that hold when it arrives."""
        try:
            terms = terms or self._service.admit(request, sink, self, None).terms
        except ProtocolError as refusal:
            sink.finish(_refused(request.id, refusal))
            return
        if line is None or isinstance(sink, BatchSink):
            line = codec.request(request.id, request.method, codec.encode(request.params))
        if not self._peer.waiting.add(request.id, WaitingRequest(line, sink, terms), len(line)):
            sink.finish(_refused(request.id, self._peer.refusal(PeerAction.REFUSE_EXCESS, request.id)))

    def _start_waiting(self) -> None:
        """Serve requests that wait, as many as there is room for."""
        self._starting = False
        for _ in range(_STARTED_AT_ONCE):
            if self._closed or not self._peer.next_may_start:
                break
            _, waiting = self._peer.waiting.take()
            request = codec.decode(waiting.line)
            assert isinstance(request, Request)
            self._serve(request, waiting.sink, waiting.terms)
        self._call_ended()

    def _start_soon(self) -> None:
        if not self._starting:
            self._starting = True
            self._loop.call_soon(self._start_waiting)

    def _serve(self, request: Request, sink: MessageSink, terms: Terms | None) -> None:
        try:
            call = self._service.admit(request, sink, self, terms)
        except ProtocolError as refusal:
            sink.finish(_refused(request.id, refusal))
            return
        outcome = begin(call, self._service.dispatch)
        if outcome is None or isinstance(outcome, bytes):
            sink.finish(outcome)
            return
        self._peer.incoming[request.id] = call
        call.task = self._loop.create_task(self._run(call, outcome))

    async def _run(self, call: Call, work: Work) -> None:
        sink = call.sink
        answer = await serve(call, work)
        try:
            if sink.congested and not call.silent:
                await sink.drained()
        except asyncio.CancelledError:
            # Ours, if the call was cancelled; else the handler's own, which came too late to stop its answer.
            pass
        if not call.silent:
            if call.progress_reporter is not None:
                call.progress_reporter.flush()
            self._remove(call)
            sink.finish(answer)
            if not self._peer.incoming:
                # No other call is about to be answered, so there is nothing to write together with.
                self._sender.flush()

    def _remove(self, call: Call) -> None:
        call.silent = True
        self._peer.incoming.pop(call.request.id, None)
        if self._idle is not None or self._peer.waiting:
            self._call_ended()

    def _call_ended(self) -> None:
        """There may be room for a request that waits, or nothing left to wait for."""
        if self._peer.next_may_start:
            self._start_soon()
        elif not self._peer.incoming and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _notified(self, action: PeerAction, notification: Notification) -> None:
        try:
            if action is PeerAction.PROGRESS:
                self.pending.progress(notification.params)
            elif action is PeerAction.CANCEL and (call := self._peer.cancelled(notification.params)) is not None:
                self._cancel(call)
            elif action is PeerAction.DROP:
                self._peer.waiting.remove(notification.params["requestId"]).sink.finish(None)
                self._call_ended()
            else:
                self._service.notified(notification)
        except Exception:
            logger.exception("Receiving %s failed", notification.method)

    def _cancel(self, call: Call) -> None:
        self._remove(call)
        task = call.task
        if task is None:
            call.sink.finish(None)
            return
        task.cancel()
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

        def finish(_: object = None) -> None:
            if not ending.cancelled():
                ending.cancel()
                call.sink.finish(None)

        # Not before the handler has cancelled its own requests, which go to the same sink; but it may take its time.
        ending = self._loop.call_later(_CANCELLATION_SECONDS, finish)
        task.add_done_callback(finish)

    def _cancel_calls(self, farewell: ProtocolError | None = None) -> None:
        waiting = self._peer.waiting
        while waiting:
            id, request = waiting.take()
            request.sink.finish(None if farewell is None else _refused(id, farewell))
        for call in list(self._peer.incoming.values()):
            self._cancel(call)

    def _wait_for_reader(self) -> None:
        """Stop reading until the peer has read what we wrote: a slow reader slows the writer.

        Two sides that wait for each other would wait forever, so one with requests of its own does not wait,
        unless the peer sends requests without ever reading: then the timeout of those requests ends it.
        """
        if self.pending and not self._service.waits_for_reader and self._unread_answers < MAX_UNREAD_ANSWERS:
            self._unread_answers += 1
            return
        if self._reader is None:
            return
        self._reading = False
        self._reader.pause()
        self._resuming = self._loop.create_task(self._resume())

    async def _resume(self) -> None:
        await self._sender.drained()
        self._reading = True
        if not self._closed and self._reader is not None:
            self._reader.resume()


class BatchSink:
    """Sink of the requests of one batch: their answers are sent together, everything else at once."""

    def __init__(self, sink: MessageSink, messages: list[Message]) -> None:
        self._sink = sink
        self._reply = BatchReply(messages)

    @property
    def congested(self) -> bool:
        """True if the peer reads more slowly than we write."""
        return self._sink.congested

    @property
    def no_requests(self) -> str | None:
        """Why no request can be sent to the peer here."""
        return self._sink.no_requests

    def send(self, line: bytes) -> None:
        """Send a message before the answers."""
        self._sink.send(line)

    def finish(self, line: bytes | None) -> None:
        """Add the answer to one request of the batch."""
        if self._reply.add(line):
            self._sink.finish(self._reply.encode())

    def disconnect(self, retry: float) -> None:
        """Close the HTTP connection; the client reconnects for the rest."""
        self._sink.disconnect(retry)

    async def drained(self) -> None:
        """Wait while the peer lags behind."""
        await self._sink.drained()

    def seal(self) -> None:
        """Every message of the batch has been handled."""
        if self._reply.seal():
            self._sink.finish(self._reply.encode())


def _refused(id: Id, error: ProtocolError) -> bytes:
    return codec.failure(id, error.code, error.message, error.data, null_id=False)
