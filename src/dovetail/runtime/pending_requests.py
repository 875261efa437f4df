"""Requests that we sent and that wait for their answer."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from dovetail.protocol.errors import (
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    ConnectionLost,
    InvalidAnswer,
    LocalError,
    NotFound,
    RemoteError,
    Timeout,
)
from dovetail.transports.base import Outlet
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Failure, Id, Invalid

if TYPE_CHECKING:
    from .connection import Connection

logger = logging.getLogger("dovetail")

OnProgress: TypeAlias = "Callable[[float, float | None, str | None], Awaitable[None] | None]"

_NOT_FOUND = frozenset({METHOD_NOT_FOUND, RESOURCE_NOT_FOUND})
_WAITING_CALLBACKS = 64

MAX_OUTSTANDING = 256
"""Requests sent and not answered yet; further ones wait, since a peer refuses what is too much for it."""


class Timeouts:
    """How long to wait: a time that progress renews, and a hard maximum that it does not."""

    __slots__ = ("maximum", "quiet")

    def __init__(self, quiet: float | None, maximum: float | None = None) -> None:
        self.quiet = quiet
        self.maximum = maximum if maximum is not None else None if quiet is None else quiet * 10


class _Pending:
    __slots__ = (
        "cancellable",
        "deadline",
        "future",
        "last",
        "limit",
        "method",
        "on_progress",
        "outlet",
        "patience",
        "since",
        "timer",
    )

    def __init__(
        self, method: str, future: asyncio.Future[Any], on_progress: OnProgress | None, outlet: Outlet
    ) -> None:
        self.method = method
        self.outlet = outlet
        self.future = future
        self.on_progress = on_progress
        self.cancellable = True
        self.timer: asyncio.TimerHandle | None = None
        self.patience: Timeouts | None = None
        self.since = 0.0
        self.deadline = float("inf")
        self.limit = float("inf")
        self.last = float("-inf")

    def answered(self) -> bool:
        """Whether an answer had come when its caller was cancelled; an error among them counts as seen."""
        if not self.future.done() or self.future.cancelled():
            return False
        return not isinstance(self.future.exception(), Timeout)


class PendingRequests:
    """Sends requests, and hands each its answer, its error, its progress or its timeout."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Id, _Pending] = {}
        self._next = 0
        self._callbacks: set[asyncio.Future[None]] = set()
        self._pauses = 0
        self._paused_at = 0.0
        self._turns: dict[asyncio.Future[None], None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, id: object) -> bool:
        return id in self._waiting

    def take_id(self) -> int:
        """An id that no request of this connection has had."""
        self._next += 1
        return self._next

    async def request(
        self,
        method: str,
        params: bytes | None,
        patience: Timeouts,
        *,
        id: int | None = None,
        on_progress: OnProgress | None = None,
        cancellable: bool = True,
        outlet: Outlet | None = None,
    ) -> Any:
        """Send a request and wait for its result; one that belongs to a call of the peer goes where that call's go.

        When the time is up, or the caller is cancelled, the peer is told, except for initialize, which
        must not be cancelled (cancellation, "Behavior Requirements").
        """
        while len(self._waiting) >= MAX_OUTSTANDING and self._connection.gone is None:
            await self._turn()
        if self._connection.gone is not None:
            raise ConnectionLost(self._connection.gone)
        if id is None:
            id = self.take_id()
        if outlet is None:
            outlet = self._connection
        elif outlet.mute is not None:
            raise LocalError(f"{method} cannot be sent to the client: {outlet.mute}")
        pending = _Pending(method, self._loop.create_future(), on_progress, outlet)
        pending.cancellable = cancellable
        self._waiting[id] = pending
        self._arm(id, pending, patience)
        outlet.send(codec.request(id, method, params))
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
            self._next_turn()

    def resolve(self, id: Id, result: Any) -> None:
        """A result arrived; one that nobody waits for is ignored."""
        pending = self._waiting.get(id)
        if pending is not None and not pending.future.done():
            pending.future.set_result(result)

    def fail(self, failure: Failure) -> None:
        """An error arrived."""
        if failure.id is None:
            logger.warning("The peer could not read a message: %s (code %d)", failure.message, failure.code)
            return
        kind = NotFound if failure.code in _NOT_FOUND else RemoteError
        self.fail_one(failure.id, kind(failure.code, failure.message, failure.data))

    def garbled(self, message: Invalid) -> None:
        """An answer arrived that cannot be read: the call that waits for it fails now."""
        if message.id is not None:
            self.fail_one(message.id, InvalidAnswer(f"The answer cannot be read: {message.message}"))
        else:
            logger.warning("An answer without a readable id was dropped: %s", message.message)

    def fail_all(self, reason: str) -> None:
        """Nobody will answer any more, so nobody need wait for a turn either."""
        while self._turns:
            self._next_turn()
        for pending in self._waiting.values():
            if not pending.future.done():
                pending.future.set_exception(ConnectionLost(reason))

    def give_up(self, reason: str) -> None:
        """Tell the peer that nobody will read the answers it still owes us."""
        for id, pending in self._waiting.items():
            if not pending.future.done():
                self._cancel(id, reason)

    def close(self, reason: str) -> None:
        """The connection is closed: fail what waits, and stop telling of progress."""
        self.fail_all(reason)
        for task in list(self._callbacks):
            task.cancel()

    def pause(self) -> None:
        """Stop the clocks of all requests: while we answer the peer, the peer may be waiting for us."""
        self._pauses += 1
        if self._pauses == 1:
            self._paused_at = self._loop.time()
            for pending in self._waiting.values():
                if pending.timer is not None:
                    pending.timer.cancel()

    @property
    def paused(self) -> bool:
        """Whether the clocks stand still."""
        return self._pauses > 0

    def resume(self) -> None:
        """Let the clocks go on, once for each pause, with the time that was left."""
        self._pauses -= 1
        if self._pauses:
            return
        now = self._loop.time()
        for id, pending in self._waiting.items():
            patience = pending.patience
            if patience is None or pending.deadline == float("inf"):
                continue
            passed = now - max(self._paused_at, pending.since)
            pending.deadline += passed
            pending.limit += passed
            pending.timer = self._loop.call_at(pending.deadline, self._expire, id, patience)

    def progress(self, params: dict[str, Any]) -> None:
        """Progress of a request of ours: it renews the patience and reaches the caller."""
        token = params.get("progressToken")
        pending = self._waiting.get(token) if type(token) is int else None
        value = params.get("progress")
        if pending is None or pending.future.done() or not _is_number(value):
            return
        if not value > pending.last:
            return
        pending.last = value
        if pending.patience is not None and pending.patience.quiet is not None:
            pending.deadline = min(self._loop.time() + pending.patience.quiet, pending.limit)
        if pending.on_progress is not None:
            total, message = params.get("total"), params.get("message")
            self._tell(
                pending.on_progress,
                value,
                total if _is_number(total) else None,
                message if isinstance(message, str) else None,
            )

    def _cancel(self, id: Id, reason: str) -> None:
        pending = self._waiting[id]
        if pending.cancellable and not self._connection.withdraw(id):
            params = codec.encode({"requestId": id, "reason": reason})
            pending.outlet.send(codec.notification("notifications/cancelled", params))

    async def _turn(self) -> None:
        """Wait until a request has been answered, or the connection is lost."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self._turns[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            # A turn that was given and not taken is for the next in line.
            if turn.done() and not turn.cancelled():
                self._next_turn()
            raise

    def _next_turn(self) -> None:
        while self._turns:
            turn = next(iter(self._turns))
            del self._turns[turn]
            if not turn.done():
                turn.set_result(None)
                return

    def fail_one(self, id: Id, problem: Exception) -> None:
        """A request will not be answered; the others may be."""
        pending = self._waiting.get(id)
        if pending is not None and not pending.future.done():
            pending.future.set_exception(problem)

    def _arm(self, id: int, pending: _Pending, patience: Timeouts) -> None:
        now, quiet = self._loop.time(), patience.quiet
        pending.patience, pending.since = patience, now
        if patience.maximum is not None:
            pending.limit = now + patience.maximum
        elif quiet is None:
            return
        pending.deadline = pending.limit if quiet is None else min(now + quiet, pending.limit)
        if not self._pauses:
            pending.timer = self._loop.call_at(pending.deadline, self._expire, id, patience)

    def _expire(self, id: Id, patience: Timeouts) -> None:
        pending = self._waiting.get(id)
        if pending is None or pending.future.done():
            return
        if self._loop.time() < pending.deadline:
            pending.timer = self._loop.call_at(pending.deadline, self._expire, id, patience)
            return
        waited = patience.maximum if pending.deadline >= pending.limit else patience.quiet
        pending.future.set_exception(Timeout(f"No answer to {pending.method} within {waited:g} s"))

    def _tell(self, callback: OnProgress, progress: float, total: float | None, message: str | None) -> None:
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
            task.add_done_callback(self._told)

    def _told(self, task: asyncio.Future[None]) -> None:
        self._callbacks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("A progress callback failed", exc_info=problem)


def _is_number(value: object) -> TypeGuard[float]:
    return type(value) is int or type(value) is float
