"""The life of a client's connection, owned by one task.

That task opens and tears down, so a client may be opened in one task and closed in another, and whoever
waits gets one typed error. Closing never cancels it: its teardown is bounded by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Protocol, TypeVar, runtime_checkable

from dovetail.auth.errors import AuthorizationFailed
from dovetail.client.auth.timeout_pause import PausableTimeouts
from dovetail.client.targets.resolve import AnyTarget
from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.errors import ConnectionLost, DovetailError, HttpStatus, RemoteError
from dovetail.protocol.revisions import NEWEST_HANDSHAKE, Revision
from dovetail.runtime.connection import Connection, Trace
from dovetail.transports.base import Channel
from dovetail.types.capabilities import ClientCapabilities, Implementation

from . import negotiation
from .http_headers import RevisionAwareChannel, StreamableHttpChannel
from .negotiation import Agreement, Negotiator
from .session import ClientSession

T = TypeVar("T")


@runtime_checkable
class SseTarget(Protocol):
    """A target that may be a server of HTTP+SSE."""

    @property
    def key(self) -> Hashable:
        """What it is remembered by."""
        ...

    async def connect_sse(self) -> Channel:
        """A channel over HTTP+SSE, connected."""
        ...

    async def ended(self) -> None:
        """Let go of what the channel needed."""
        ...


@runtime_checkable
class AttendedTarget(Protocol):
    """A target whose user may have to log in while a request waits."""

    def attend(self, clocks: PausableTimeouts) -> None:
        """Have the clocks of requests stand still meanwhile."""
        ...


class Supervisor:
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
        self._renewing = asyncio.Lock()
        self.web: StreamableHttpChannel | None = None
        """The channel, where it is one over Streamable HTTP."""
        self._attuned: RevisionAwareChannel | None = None
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

    async def renew_session(self) -> bool:
        """Begin a new session where the server has ended the old one, with what was subscribed to; whether it was we.

        2025-11-25 transports, "Session Management".
        """
        async with self._renewing:
            if self.web is None or self.web.ended_session is None:
                return False
            self.agreement = await self._greeting().initialize(self.agreement.revision)
            for uri in list(self.session.watched):
                params = {"uri": uri}
                with contextlib.suppress(DovetailError):
                    await self.connection.pending.request("resources/subscribe", params, Timeouts(self._timeout))
            return True

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
        """First contact, over HTTP+SSE where a server behind a URL speaks nothing newer."""
        key, known, wanted = self._target.key, negotiation.remembered(self._target.key), self._revision
        if known == negotiation.SSE and (wanted is None or wanted.era == "handshake"):
            negotiation.forget(key)
            channel = await self._sse_channel()
            if channel is not None:
                agreeing = self._shake_hands(channel)
                return await (agreeing if wanted is None else self._as_pinned(agreeing, wanted))
        greeting = await self._connect(await self._target.connect())
        if wanted is not None:
            return await self._as_pinned(self._pinned(greeting, wanted), wanted)
        try:
            agreement = await self._find_out(greeting, known)
        except (HttpStatus, RemoteError) as refusal:
            negotiation.forget(key)
            return await self._over_sse(refusal)
        except DovetailError:
            negotiation.forget(key)
            raise
        negotiation.remember(key, agreement.revision.era)
        return agreement

    async def _find_out(self, greeting: Negotiator, known: str | None) -> Agreement:
        """The handshake where it was right before, else a probe; a server that the probe ends is started once more."""
        try:
            if known == "handshake":
                return await self._as_before(greeting)
            return await greeting.find_out()
        except ConnectionLost:
            if not self._target.restartable or known == "handshake":
                raise
            await self._drop()
            return await self._second_try(self._connection_lost_reason())

    async def _over_sse(self, refusal: Exception) -> Agreement:
        """The handshake over HTTP+SSE, if what refused it over Streamable HTTP may speak that."""
        if not isinstance(self._target, SseTarget) or not negotiation.may_speak_sse(refusal):
            raise refusal
        await self._drop()
        channel = await self._sse_channel()
        if channel is None:
            raise refusal
        return await self._shake_hands(channel)

    async def _sse_channel(self) -> Channel | None:
        """A channel over HTTP+SSE, None where the server does not offer that."""
        target = self._target
        assert isinstance(target, SseTarget)
        try:
            return await target.connect_sse()
        except AuthorizationFailed:
            await target.ended()
            raise
        except DovetailError:
            await target.ended()
            return None

    async def _shake_hands(self, channel: Channel) -> Agreement:
        greeting = await self._connect(channel)
        agreement = await greeting.initialize(self._revision or NEWEST_HANDSHAKE)
        negotiation.remember(self._target.key, negotiation.SSE)
        return agreement

    async def _as_before(self, greeting: Negotiator) -> Agreement:
        """The handshake without a probe; a server that refuses it now is probed after all."""
        try:
            return await greeting.initialize(NEWEST_HANDSHAKE)
        except (HttpStatus, RemoteError):
            negotiation.forget(self._target.key)
            return await greeting.find_out()

    async def _second_try(self, reason: str) -> Agreement:
        greeting = await self._connect(await self._target.connect())
        try:
            return await greeting.initialize(NEWEST_HANDSHAKE)
        except ConnectionLost:
            raise ConnectionLost(reason) from None

    async def _pinned(self, greeting: Negotiator, revision: Revision) -> Agreement:
        try:
            return await greeting.agree_on(revision)
        except (HttpStatus, RemoteError) as refusal:
            if revision.era == "envelope":
                raise
            return await self._over_sse(refusal)

    async def _as_pinned(self, agreeing: Coroutine[Any, Any, Agreement], revision: Revision) -> Agreement:
        """An agreement that must be on this revision; a refusal says that it was about that."""
        try:
            agreement = await agreeing
        except HttpStatus as refusal:
            if not negotiation.may_speak_sse(refusal):
                raise
            told = f"The server does not speak {revision.name}: {refusal}"
            raise HttpStatus(told, refusal.status, refusal.url) from refusal
        except RemoteError as refusal:
            raise ConnectionLost(f"The server does not speak {revision.name}: {refusal}") from refusal
        if agreement.revision is not revision:
            offered = agreement.revision.name
            raise ConnectionLost(f"The server does not speak {revision.name}; it offers {offered}")
        return agreement

    def _connection_lost_reason(self) -> str:
        return self.connection.gone or "the server closed the connection"

    async def _connect(self, channel: Channel) -> Negotiator:
        self._lost.clear()
        self.session = self._make_session(self._lost.set)
        self.session.capabilities = self._capabilities
        self._attuned = channel if isinstance(channel, RevisionAwareChannel) else None
        self.web = channel if isinstance(channel, StreamableHttpChannel) else None
        self.connection = Connection(channel, self.session, self._trace)
        if isinstance(self._target, AttendedTarget):
            self._target.attend(self.connection.pending)
        self.connection.open()
        return self._greeting()

    def _greeting(self) -> Negotiator:
        return Negotiator(
            self.connection, self._client, self._capabilities, self._timeout, self._agree, self._log_level
        )

    def _agree(self, revision: Revision, server: Implementation | None) -> None:
        self.session.agree(revision, server)
        if self._attuned is not None:
            self._attuned.agreed(revision)

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
