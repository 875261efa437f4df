"""Supervisor of a client's connection: one task opens it, negotiates, and tears it down.

So a client may be opened in one task and closed in another, and callers get one typed error. Closing never cancels that
task: its teardown is bounded by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, TypeVar

from dovetail.protocol.errors import ConnectionLost, DovetailError, Timeout
from dovetail.protocol.revisions import Revision
from dovetail.runtime.connection import Connection
from dovetail.transports.base import (
    MESSAGE_LIMIT_OPTION,
    Channel,
    ProgramChannel,
    RequestChannel,
)
from dovetail.types.capabilities import Implementation

from .negotiation import Agreement
from .negotiator import ConnectOptions, Negotiator, initialize
from .session import ClientSession
from .targets.contract import ServerTarget

T = TypeVar("T")


class Supervisor:
    """A connection to a server and what was agreed on over it."""

    def __init__(
        self,
        target: ServerTarget,
        make_session: Callable[[Callable[[], None]], ClientSession],
        options: ConnectOptions,
    ) -> None:
        self._target = target
        self._make_session = make_session
        self._options = options
        self._closing = asyncio.Event()
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._renewing = asyncio.Lock()
        self.key, self.legacy_sse = target.key, target.legacy_sse
        self.http: RequestChannel | None = None
        """The channel, where it is one over HTTP."""
        self._program: ProgramChannel | None = None
        """The channel, where it is one to a program that was started for it."""
        self.connection: Connection
        self.session: ClientSession
        self.agreement: Agreement

    @property
    def restartable(self) -> bool:
        """True if a server that has ended can be started again, and may have ended because of what it was sent."""
        return self._target.restartable and (self._program is None or self._program.has_read_input)

    async def open(self) -> None:
        """Connect and negotiate; a cancelled caller leaves nothing behind."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._supervise(opened), name="dovetail-supervisor")
        try:
            await asyncio.shield(opened)
        except BaseException:
            await self.close()
            if opened.done() and not opened.cancelled():
                opened.exception()
            raise

    async def close(self) -> None:
        """Tear down and wait for it, even when cancelled meanwhile; the cancellation is raised afterwards."""
        self._closing.set()
        interrupted: asyncio.CancelledError | None = None
        while self._task is not None and not self._task.done():
            try:
                await asyncio.shield(self._task)
            except asyncio.CancelledError as stop:
                interrupted = stop
        if interrupted is not None:
            raise interrupted

    async def wait_lost(self) -> None:
        """Wait until the connection is lost."""
        await self._lost.wait()

    async def renew_session(self) -> bool:
        """Initialize again after the server ended the session; True if this call did it. Watchers subscribe again.

        2025-11-25 transports, "Session Management".
        """
        async with self._renewing:
            if self.http is None or self.http.ended_session is None:
                return False
            self.agreement = await initialize(self.connection, self._options, self.agreement.revision, self)
            return True

    async def unless_lost(self, work: Coroutine[Any, Any, T]) -> T:
        """The outcome of some work for the server; it is cancelled when the connection is lost."""
        working, lost = asyncio.ensure_future(work), asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({working, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ConnectionLost(self._lost_reason())
            return working.result()
        finally:
            working.cancel()
            lost.cancel()
            await asyncio.gather(working, lost, return_exceptions=True)

    async def connect(self, transport: Literal["default", "legacy_sse"]) -> Connection:
        """Open a connection; there must be no other."""
        limit = self._options.max_message_bytes
        if transport == "default":
            channel = await self._target.connect(limit)
        else:
            try:
                channel = await self._target.connect_legacy_sse(limit)
            except DovetailError:
                await self._target.release()
                raise
        return self._open_connection(channel)

    async def disconnect(self) -> str:
        """Close the connection, if there is one; why it was lost."""
        try:
            if hasattr(self, "connection"):
                self.session.close_tasks()
                await self.connection.close()
                await self._target.release()
        finally:
            self._lost.set()
        return self._lost_reason()

    def agreed(self, revision: Revision, server: Implementation | None) -> None:
        """Use the revision that was agreed on from now on."""
        self.session.agree(revision, server)
        if self._program is not None:
            self._program.started()
            self.connection.log_deferred_warning()
        if self.http is not None:
            self.http.agreed(revision)

    async def _supervise(self, opened: asyncio.Future[None]) -> None:
        explained = False
        try:
            try:
                self.agreement = await self._until_closing(Negotiator(self, self._options).run())
            except asyncio.CancelledError:
                raise ConnectionLost("closed before the server had answered") from None
            if not opened.done():
                opened.set_result(None)
            await self._until_closing(self._lost.wait())
        except asyncio.CancelledError:
            pass
        except BaseException as problem:
            explained = not self._closing.is_set()
            if not opened.done():
                opened.set_exception(self._explained(problem))
        finally:
            await self.disconnect()
            if self._program is not None and not explained:
                self._program.start_cancelled()

    async def _until_closing(self, work: Awaitable[T]) -> T:
        """The outcome of some work, which is cancelled when the client is closed."""
        working = asyncio.ensure_future(work)
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait({working, closing}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                working.cancel()
            return await working
        finally:
            closing.cancel()

    def _open_connection(self, channel: Channel) -> Connection:
        self._lost.clear()
        self.session = self._make_session(self._lost.set)
        self.session.capabilities = self._options.capabilities
        self.http = channel if isinstance(channel, RequestChannel) else None
        if self.http is not None:
            self.http.on_interrupted = self.session.interrupted
        self._program = channel if isinstance(channel, ProgramChannel) else None
        self.connection = Connection(
            channel,
            self.session,
            reader=channel,
            trace=self._options.trace,
            limit_option=MESSAGE_LIMIT_OPTION,
            peer_name=self._target.label,
            # The error of a program that does not start has the lines that are no messages.
            defer_warning=self._program is not None,
            raw_results=self._options.raw_results,
        )
        self._target.use_timeouts(self.connection.pending)
        self.connection.open()
        return self.connection

    def _explained(self, problem: BaseException) -> BaseException:
        """The error of a failed start; where a program does not answer, its output may say why."""
        if self._program is None or not isinstance(problem, Timeout):
            return problem
        explained = Timeout(self._program.explain(str(problem)))
        explained.__cause__ = problem
        return explained

    def _lost_reason(self) -> str:
        reason = self.connection.gone if hasattr(self, "connection") else None
        return reason or "the server closed the connection"
