"""The life of a client's connection, owned by one task.

That task opens and tears down, so a client may be opened in one task and closed in another, and whoever
waits gets one typed error. Closing never cancels it: its teardown is bounded by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from dovetail.protocol.errors import ConnectionLost, DovetailError, RemoteError
from dovetail.protocol.revisions import NEWEST_HANDSHAKE, Revision
from dovetail.runtime.connection import Connection, Trace
from dovetail.types.capabilities import ClientCapabilities, Implementation

from . import probe
from .probe import Agreement, Greeting
from .session import ClientSession
from .targets import AnyTarget

T = TypeVar("T")


class Link:
    """A connection to a server and what was agreed on over it."""

    def __init__(
        self,
        target: AnyTarget,
        session: Callable[[Callable[[], None]], ClientSession],
        client: Implementation,
        capabilities: ClientCapabilities,
        revision: Revision | None,
        timeout: float | None,
        trace: Trace | None,
        log_level: str | None = None,
    ) -> None:
        self._target = target
        self._make_session = session
        self._client = client
        self._capabilities = capabilities
        self._revision = revision
        self._timeout = timeout
        self._trace = trace
        self._log_level = log_level
        self._closing = asyncio.Event()
        self._lost = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None
        self.connection: Connection
        self.session: ClientSession
        self.agreement: Agreement

    async def open(self) -> None:
        """Connect and agree on a revision; a cancelled caller leaves nothing behind."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._supervisor = asyncio.create_task(self._supervise(opened), name="dovetail-link")
        try:
            await asyncio.shield(opened)
        except BaseException:
            await self.close()
            if opened.done() and not opened.cancelled():
                opened.exception()
            raise

    async def close(self) -> None:
        """Tear down and wait for it, also when cancelled meanwhile; then the cancellation goes on."""
        self._closing.set()
        interrupted: asyncio.CancelledError | None = None
        while self._supervisor is not None and not self._supervisor.done():
            try:
                await asyncio.shield(self._supervisor)
            except asyncio.CancelledError as stop:
                interrupted = stop
        if interrupted is not None:
            raise interrupted

    async def lost(self) -> None:
        """Wait until the server is gone."""
        await self._lost.wait()

    async def unless_lost(self, work: Coroutine[Any, Any, T]) -> T:
        """The outcome of some work for the server; it is stopped when the server is gone."""
        doing, lost = asyncio.ensure_future(work), asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({doing, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise ConnectionLost(self._connection_lost_reason())
            return doing.result()
        finally:
            doing.cancel()
            lost.cancel()
            await asyncio.gather(doing, lost, return_exceptions=True)

    async def _supervise(self, opened: asyncio.Future[None]) -> None:
        try:
            try:
                self.agreement = await self._until_closing(self._greet())
            except asyncio.CancelledError:
                raise ConnectionLost("closed before the server had answered") from None
            if not opened.done():
                opened.set_result(None)
            await self._until_closing(self._lost.wait())
        except asyncio.CancelledError:
            pass
        except BaseException as problem:
            if not opened.done():
                opened.set_exception(problem)
        finally:
            await self._drop()

    async def _greet(self) -> Agreement:
        """First contact; a server that the probe ends is started once more."""
        key = self._target.key
        known = probe.remembered(key)
        greeting = await self._connect()
        if self._revision is not None:
            return await self._pinned(greeting, self._revision)
        try:
            if known == "handshake":
                agreement = await self._as_before(greeting)
            else:
                agreement = await greeting.find_out()
        except ConnectionLost:
            if not self._target.restartable or known == "handshake":
                probe.forget(key)
                raise
            await self._drop()
            agreement = await self._second_try(self._connection_lost_reason())
        except DovetailError:
            probe.forget(key)
            raise
        probe.remember(key, agreement)
        return agreement

    async def _as_before(self, greeting: Greeting) -> Agreement:
        """The handshake without a probe; a server that refuses it now is probed after all."""
        try:
            return await greeting.initialize(NEWEST_HANDSHAKE)
        except RemoteError:
            probe.forget(self._target.key)
            return await greeting.find_out()

    async def _second_try(self, reason: str) -> Agreement:
        greeting = await self._connect()
        try:
            return await greeting.initialize(NEWEST_HANDSHAKE)
        except ConnectionLost:
            raise ConnectionLost(reason) from None

    async def _pinned(self, greeting: Greeting, revision: Revision) -> Agreement:
        try:
            agreement = await greeting.agree_on(revision)
        except RemoteError as refusal:
            raise ConnectionLost(f"The server does not speak {revision.name}: {refusal}") from refusal
        if agreement.revision is not revision:
            offered = agreement.revision.name
            raise ConnectionLost(f"The server does not speak {revision.name}; it offers {offered}")
        return agreement

    def _connection_lost_reason(self) -> str:
        return self.connection.gone or "the server closed the connection"

    async def _connect(self) -> Greeting:
        channel = await self._target.connect()
        self._lost.clear()
        self.session = self._make_session(self._lost.set)
        self.session.capabilities = self._capabilities
        self.connection = Connection(channel, self.session, self._trace)
        self.connection.open()
        return Greeting(
            self.connection,
            self._client,
            self._capabilities,
            self._timeout,
            self.session.agree,
            self._log_level,
        )

    async def _until_closing(self, work: Awaitable[Agreement | bool]) -> Agreement:
        """The outcome of some work, given up when the client is closed."""
        doing = asyncio.ensure_future(work)
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait({doing, closing}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                doing.cancel()
            return await doing  # type: ignore[return-value]
        finally:
            closing.cancel()

    async def _drop(self) -> None:
        try:
            if hasattr(self, "connection"):
                await self.connection.close()
                await self._target.ended()
        finally:
            self._lost.set()
