"""Pending requests: the requests of ours that have no answer yet, with their deadlines and progress callbacks."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import msgspec

from dovetail.protocol.deadline import NEVER, Deadline, Timeouts
from dovetail.protocol.errors import (
    ConnectionLost,
    InvalidAnswer,
    LocalError,
    OutcomeUnknown,
    Timeout,
    remote_error,
)
from dovetail.protocol.peer import Peer
from dovetail.transports.base import MessageSink
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Failure, Id, Invalid, Request

if TYPE_CHECKING:
    from .connection import Connection

logger = logging.getLogger("dovetail")

OnProgress: TypeAlias = "Callable[[float, float | None, str | None], Awaitable[None] | None]"

_WAITING_CALLBACKS = 64
_CANCELLED = "notifications/cancelled"

MAX_OUTSTANDING = 256
"""Requests in flight on one connection; further ones wait, since peers refuse requests above a bound of their own."""


class _Pending:
    """One request and its way back to the caller."""

    __slots__ = ("cancellable", "deadline", "future", "last_progress", "method", "on_progress", "raw", "sink", "timer")

    def __init__(
        self,
        method: str,
        future: asyncio.Future[Any],
        on_progress: OnProgress | None,
        sink: MessageSink,
        deadline: Deadline,
        *,
        cancellable: bool,
        raw: bool,
    ) -> None:
        self.method = method
        self.future = future
        self.on_progress = on_progress
        self.sink = sink
        self.deadline = deadline
        self.cancellable = cancellable
        self.raw = raw
        """The result is not decoded, where the connection leaves that to its requests."""
        self.timer: asyncio.TimerHandle | None = None
        self.last_progress = float("-inf")

    def answered(self) -> bool:
        """True if a response had come when its caller was cancelled; retrieves an error, so that none is logged."""
        if not self.future.done() or self.future.cancelled():
            return False
        return not isinstance(self.future.exception(), Timeout)


class PendingRequests:
    """Sends requests and correlates answers, errors, progress and timeouts with them."""

    def __init__(self, connection: Connection, peer: Peer[Any, _Pending]) -> None:
        self._connection = connection
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._waiting = peer.outgoing
        self._callbacks: set[asyncio.Future[None]] = set()
        self._pauses = 0
        self._slot_waiters: dict[asyncio.Future[None], None] = {}
        self.task_progress: dict[Id, OnProgress] = {}
        """By token: callbacks for requests that were answered with a task, whose token stays valid (2025-11-25)."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, id: object) -> bool:
        return id in self._waiting

    def next_id(self) -> Id:
        """An id that no request of this connection has had."""
        return self._peer.next_id()

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None,
        timeouts: Timeouts,
        *,
        id: Id | None = None,
        on_progress: OnProgress | None = None,
        cancellable: bool = True,
        sink: MessageSink | None = None,
        raw: bool = False,
    ) -> Any:
        """Send a request and wait for its result: JSON values, or JSON text as `msgspec.Raw` if `raw`.

        A request that belongs to a call of the peer goes to the `sink` of that call. After a timeout, or when the
        caller is cancelled, the peer gets a cancellation, except for initialize, which must not be cancelled
        (cancellation, "Behavior Requirements").
        """
        while len(self._waiting) >= MAX_OUTSTANDING and self._connection.gone is None:
            await self._wait_for_slot()
        if self._connection.gone is not None:
            raise ConnectionLost(self._connection.gone)
        if id is None:
            id = self.next_id()
        try:
            line = codec.request(id, method, codec.encode(params) if params else None)
        except (TypeError, ValueError, OverflowError, RecursionError) as problem:
            raise LocalError(f"The params of {method} cannot be written as JSON: {problem}") from problem
        if sink is not None and sink.no_requests is not None:
            raise LocalError(f"{method} cannot be sent to the client: {sink.no_requests}")
        pending = _Pending(
            method,
            self._loop.create_future(),
            on_progress,
            sink or self._connection,
            timeouts.deadline(self._loop.time()),
            cancellable=cancellable,
            raw=raw,
        )
        self._waiting[id] = pending
        self._start_timer(id, pending)
        if sink is None:
            self._connection.send(line, Request(id, method, params or {}))
        else:
            sink.send(line)
        try:
            return await pending.future
        except (Timeout, asyncio.CancelledError) as stop:
            if self._connection.gone is None and not pending.answered():
                self._cancel(id, "timed out" if isinstance(stop, Timeout) else "cancelled by the caller")
            raise
        finally:
            self._waiting.pop(id, None)
            if pending.timer is not None:
                pending.timer.cancel()
            self._release_slot()

    def resolve(self, id: Id, result: Any) -> None:
        """A result arrived; one that no request waits for is ignored."""
        pending = self._waiting.get(id)
        if pending is None or pending.future.done():
            return
        if isinstance(result, msgspec.Raw) and not pending.raw:
            try:
                result = msgspec.json.decode(result)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
                pending.future.set_exception(InvalidAnswer(f"The answer cannot be read: {problem}"))
                return
        pending.future.set_result(result)

    def fail(self, failure: Failure) -> None:
        """An error arrived."""
        if failure.id is None:
            logger.warning("The peer could not read a message: %s (code %d)", failure.message, failure.code)
            return
        self.fail_one(failure.id, remote_error(failure.code, failure.message, failure.data))

    def fail_unreadable(self, message: Invalid) -> None:
        """An answer arrived that cannot be read: the request that waits for it fails now."""
        if message.id is not None:
            self.fail_one(message.id, InvalidAnswer(f"The answer cannot be read: {message.message}"))
        else:
            logger.warning("An answer without a readable id was dropped: %s", message.message)

    def fail_one(self, id: Id, problem: Exception) -> None:
        """One request will not be answered; the others may be."""
        pending = self._waiting.get(id)
        if pending is not None and not pending.future.done():
            pending.future.set_exception(problem)

    def fail_all(self, reason: str) -> None:
        """The connection is lost: fail every request, those that wait to be sent as not sent."""
        while self._slot_waiters:
            self._release_slot()
        for pending in self._waiting.values():
            if not pending.future.done():
                pending.future.set_exception(OutcomeUnknown(reason))

    def cancel_all(self, reason: str) -> None:
        """Send a cancellation for every request that has no answer yet."""
        for id, pending in self._waiting.items():
            if not pending.future.done():
                self._cancel(id, reason)

    def close(self, reason: str) -> None:
        """The connection is closed: fail every request, and stop progress callbacks."""
        self.fail_all(reason)
        for task in list(self._callbacks):
            task.cancel()

    @property
    def paused(self) -> bool:
        """True if timeouts are paused."""
        return self._pauses > 0

    def pause(self) -> None:
        """Pause the timeouts of all requests: while we serve the peer, the peer may be waiting for us."""
        self._pauses += 1
        if self._pauses == 1:
            now = self._loop.time()
            for pending in self._waiting.values():
                pending.deadline = pending.deadline.paused(now)
                if pending.timer is not None:
                    pending.timer.cancel()

    def resume(self) -> None:
        """End one pause; after the last one, timeouts go on with the time that was left."""
        self._pauses -= 1
        if not self._pauses:
            now = self._loop.time()
            for id, pending in self._waiting.items():
                pending.deadline = pending.deadline.resumed(now)
                self._start_timer(id, pending)

    def progress(self, params: dict[str, Any]) -> None:
        """Progress of a request arrived: it renews the deadline and is passed to the caller."""
        token = params.get("progressToken")
        pending = self._waiting.get(token) if type(token) is int or type(token) is str else None
        value = params.get("progress")
        if pending is None and _is_number(value) and token in self.task_progress:
            self._report(self.task_progress[token], value, params)
            return
        if pending is None or pending.future.done() or not _is_number(value):
            return
        if not value > pending.last_progress:
            return
        pending.last_progress = value
        # The timer is left as it is: it sees that the deadline has moved when it fires.
        pending.deadline = pending.deadline.renewed(self._loop.time())
        if pending.on_progress is not None:
            self._report(pending.on_progress, value, params)

    def _report(self, callback: OnProgress, value: float, params: dict[str, Any]) -> None:
        total, message = params.get("total"), params.get("message")
        self._call_back(
            callback,
            value,
            total if _is_number(total) else None,
            message if isinstance(message, str) else None,
        )

    def _cancel(self, id: Id, reason: str) -> None:
        pending = self._waiting[id]
        if not pending.cancellable or self._connection.withdraw(id):
            return
        params = {"requestId": id, "reason": reason}
        if pending.sink is self._connection:
            self._connection.notify(_CANCELLED, params)
        else:
            pending.sink.send(codec.notification(_CANCELLED, codec.encode(params)))

    async def _wait_for_slot(self) -> None:
        """Wait until a request has been answered, or the connection is lost."""
        slot: asyncio.Future[None] = self._loop.create_future()
        self._slot_waiters[slot] = None
        try:
            await slot
        except asyncio.CancelledError:
            # A slot that was released to a cancelled waiter is for the next in line.
            if slot.done() and not slot.cancelled():
                self._release_slot()
            raise

    def _release_slot(self) -> None:
        while self._slot_waiters:
            slot = next(iter(self._slot_waiters))
            del self._slot_waiters[slot]
            if not slot.done():
                slot.set_result(None)
                return

    def _start_timer(self, id: Id, pending: _Pending) -> None:
        if self._pauses:
            pending.deadline = pending.deadline.paused(self._loop.time())
        elif pending.deadline.at != NEVER:
            pending.timer = self._loop.call_at(pending.deadline.at, self._expire, id)

    def _expire(self, id: Id) -> None:
        pending = self._waiting.get(id)
        if pending is None or pending.future.done():
            return
        if not pending.deadline.due(self._loop.time()):
            self._start_timer(id, pending)
            return
        pending.future.set_exception(Timeout(f"No answer to {pending.method} within {pending.deadline.exceeded_text}"))

    def _call_back(self, callback: OnProgress, progress: float, total: float | None, message: str | None) -> None:
        try:
            outcome = callback(progress, total, message)
        except Exception:
            logger.exception("A progress callback failed")
            return
        if inspect.isawaitable(outcome):
            if len(self._callbacks) >= _WAITING_CALLBACKS:
                if inspect.iscoroutine(outcome):
                    outcome.close()
                return
            task = asyncio.ensure_future(outcome)
            self._callbacks.add(task)
            task.add_done_callback(self._callback_ended)

    def _callback_ended(self, task: asyncio.Future[None]) -> None:
        self._callbacks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("A progress callback failed", exc_info=problem)


def _is_number(value: object) -> TypeGuard[float]:
    return type(value) is int or type(value) is float
