"""One request that is being served."""

from __future__ import annotations

import asyncio
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from dovetail.protocol.envelope import PROGRESS_TOKEN, meta_of
from dovetail.protocol.terms import Terms
from dovetail.transports.base import Outlet
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Request

if TYPE_CHECKING:
    from .connection import Connection

_YIELD_EVERY = 64


class Call:
    """A request in flight on a connection, from its arrival to its answer."""

    __slots__ = (
        "_flushing",
        "_held",
        "_progress",
        "_token",
        "_told",
        "code",
        "connection",
        "outlet",
        "problem",
        "request",
        "silent",
        "task",
        "terms",
    )

    def __init__(self, connection: Connection, request: Request, terms: Terms, outlet: Outlet | None = None) -> None:
        self.connection = connection
        self.outlet: Outlet = connection if outlet is None else outlet
        self.request = request
        self.terms = terms
        self.task: asyncio.Task[None] | None = None
        self.problem: BaseException | None = None
        """What a handler raised, unforeseen, when the answer only tells of it in words."""
        self.code: int | None = None
        """The code of the error that the request ended in."""
        self.silent = False
        """Cancelled, or answered: nothing more is sent for this request."""
        meta = meta_of(request.params)
        token = meta.get(PROGRESS_TOKEN) if meta else None
        self._token: Id | None = token if type(token) is int or type(token) is str else None
        self._progress = -inf
        self._held: bytes | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._told = 0

    @property
    def wants_progress(self) -> bool:
        """Whether the peer asked to be told of progress."""
        return self._token is not None

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell the peer how far the request is.

        Only increasing values are sent (progress, "Progress Flow"), and only what JSON can hold. While the
        peer lags behind, the newest value replaces those not yet sent.
        """
        self._told += 1
        if self.silent or self._told % _YIELD_EVERY == 0:
            # A handler that does nothing but this would otherwise keep the loop to itself.
            await asyncio.sleep(0)
        if self._token is None or self.silent or not self._progress < progress < inf:
            return
        self._progress = progress
        line = self._line(progress, total, message)
        if self.outlet.congested:
            await self._hold(line)
            return
        self._held = None
        self.outlet.send(line)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification that belongs to this request."""
        self.outlet.send(codec.notification(method, None if params is None else codec.encode(params)))

    def stop(self) -> None:
        """Stop serving it: the handler is cancelled, and nothing more is sent."""
        self.silent = True
        if self.task is not None:
            self.task.cancel()

    def flush(self) -> None:
        """Send the progress that was held back, before the answer goes out."""
        if self._held is not None and not self.silent:
            self.outlet.send(self._held)
            self._held = None

    async def _hold(self, line: bytes) -> None:
        """Keep the newest value until the peer reads again; the handler goes on meanwhile."""
        if self._held is None:
            self._flushing = asyncio.create_task(self._flush_later())
        self._held = line
        await asyncio.sleep(0)

    async def _flush_later(self) -> None:
        await self.outlet.drained()
        self.flush()

    def _line(self, progress: float, total: float | None, message: str | None) -> bytes:
        encode = codec.encode
        fields = b'"progressToken":%b,"progress":%b' % (encode(self._token), encode(progress))
        if total is not None and isfinite(total):
            fields += b',"total":%b' % encode(total)
        if message is not None and "message" in self.terms.revision.known["ProgressParams"]:
            fields += b',"message":%b' % encode(message)
        return b'{"jsonrpc":"2.0","method":"notifications/progress","params":{%b}}' % fields
