"""A request that is being served, and the progress that is reported of it."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from dovetail.protocol.envelope import PROGRESS_TOKEN, meta_of
from dovetail.protocol.terms import Terms
from dovetail.transports.base import MessageSink
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Request

if TYPE_CHECKING:
    from .connection import Connection

_YIELD_EVERY = 64


class Call:
    """A request of the peer, from its arrival to its answer."""

    __slots__ = (
        "connection",
        "error_code",
        "problem",
        "progress_reporter",
        "request",
        "silent",
        "sink",
        "task",
        "terms",
    )

    def __init__(self, request: Request, terms: Terms, sink: MessageSink, connection: Connection | None) -> None:
        self.request = request
        self.terms = terms
        self.sink = sink
        """Destination of the messages about this request."""
        self.connection = connection
        """The connection that it came on; None for a request that is served by itself (envelope era over HTTP)."""
        self.task: asyncio.Task[None] | None = None
        """The task that serves it, once there is one."""
        self.problem: BaseException | None = None
        """The exception of a handler where the answer only describes it in words."""
        self.error_code: int | None = None
        """The code of the error that the request ended in."""
        self.silent = False
        """Cancelled, or answered: nothing more is sent for this request."""
        self.progress_reporter: ProgressReporter | None = None
        """Reports progress, once the handler has reported any."""

    @property
    def client_key(self) -> Hashable:
        """The key that limits count the peer by; None if there is only one."""
        return self.terms.principal

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress to the peer, if it asked for it."""
        if self.progress_reporter is None:
            self.progress_reporter = ProgressReporter(self)
        await self.progress_reporter.report(progress, total, message)

    async def status(self, message: str) -> None:
        """Describe the state of the work; only a task has a place for it."""

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification that belongs to this request."""
        self.sink.send(codec.notification(method, None if params is None else codec.encode(params)))

    def stop(self) -> None:
        """Cancel the handler and send nothing more."""
        self.silent = True
        if self.task is not None:
            self.task.cancel()


class ProgressReporter:
    """Progress notifications of one call.

    Only increasing values are sent (progress, "Progress Flow"), and only what JSON can hold. While the peer lags
    behind, the newest value replaces those not yet sent.
    """

    __slots__ = ("_call", "_flushing", "_held", "_last", "_reports", "_token")

    def __init__(self, call: Call) -> None:
        self._call = call
        meta = meta_of(call.request.params)
        token = meta.get(PROGRESS_TOKEN) if meta else None
        self._token: Id | None = token if type(token) is int or type(token) is str else None
        self._last = -inf
        self._held: bytes | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._reports = 0

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Send one report, or hold it back while the peer does not read."""
        call = self._call
        self._reports += 1
        if call.silent or self._reports % _YIELD_EVERY == 0:
            # A handler that does nothing but this would otherwise keep the loop to itself.
            await asyncio.sleep(0)
        if self._token is None or call.silent or not self._last < progress < inf:
            return
        self._last = progress
        line = self._encode(progress, total, message)
        if call.sink.congested:
            if self._held is None:
                self._flushing = asyncio.create_task(self._flush_later())
            self._held = line
            await asyncio.sleep(0)
            return
        self._held = None
        call.sink.send(line)

    def flush(self) -> None:
        """Send the report that was held back, if any."""
        if self._held is not None and not self._call.silent:
            self._call.sink.send(self._held)
            self._held = None

    async def _flush_later(self) -> None:
        await self._call.sink.drained()
        self.flush()

    def _encode(self, progress: float, total: float | None, message: str | None) -> bytes:
        encode = codec.encode
        fields = b'"progressToken":%b,"progress":%b' % (encode(self._token), encode(progress))
        if total is not None and isfinite(total):
            fields += b',"total":%b' % encode(total)
        if message is not None and "message" in self._call.terms.revision.known["ProgressParams"]:
            fields += b',"message":%b' % encode(message)
        return b'{"jsonrpc":"2.0","method":"notifications/progress","params":{%b}}' % fields
