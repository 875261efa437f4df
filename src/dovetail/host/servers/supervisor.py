"""Supervisor of one server: starts it when it is needed, and restarts it after a pause when it is lost.

One task owns the client: it opens and closes it, so that a host may be opened in one task and closed in another.

`ChangeSignal` wakes the tasks that wait for a change.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any, Protocol

import msgspec

from dovetail.config.entries import ServerEntry
from dovetail.host.events import HostEvent, OnTraffic, ServerStatus
from dovetail.host.limits import Limits
from dovetail.host.running_work import Stopped
from dovetail.protocol.errors import ConnectionLost, DovetailError, HttpStatus, LocalError, Refused
from dovetail.text.sanitize import clean_text
from dovetail.transports.program_output import with_last_output

from .bounded_client import BoundedClient, ListKind, ServerFeatures
from .connected_server import ConnectedServer
from .server_log import ServerLog
from .state import SETTLED, TRANSITIONS, Event, State


class ChangeSignal:
    """Wakes all tasks that wait; each then checks its own condition."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None

    def notify(self) -> None:
        """Wake all tasks that wait."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait for the next `notify`, at most this long."""
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._waiter], timeout=max(seconds, 0))


_CLOSE_SECONDS = 15.0
"""A process that does not want to end is killed long before that."""


class SupervisorCallbacks(Protocol):
    """Callbacks of a supervisor."""

    async def admit(self, entry: ServerEntry) -> None:
        """Ask whether it may be started; raises `Refused`."""
        ...

    async def connect(self, entry: ServerEntry, log: ServerLog) -> BoundedClient:
        """A client for it, not open yet."""
        ...

    async def listed(self, key: str, features: ServerFeatures, changed: frozenset[ListKind]) -> None:
        """Take up what it offers."""
        ...

    def misbehaved(self, key: str, what: str) -> None:
        """Take note that it broke off, or overstepped a limit."""
        ...

    def ended(self, key: str) -> None:
        """It is gone: whatever it asked is withdrawn."""
        ...

    def emit(self, event: HostEvent) -> None:
        """Report an event."""
        ...

    @property
    def on_traffic(self) -> OnTraffic | None:
        """Receives each message between the host and a server."""
        ...


class ServerSupervisor:
    """Runs one server and keeps it running."""

    def __init__(
        self, entry: ServerEntry, callbacks: SupervisorCallbacks, limits: Limits, change_signal: ChangeSignal
    ) -> None:
        self.entry = entry
        self._callbacks = callbacks
        self._limits = limits
        self._change_signal = change_signal
        self.log = ServerLog(
            entry.key,
            limits,
            callbacks.emit,
            lambda what: callbacks.misbehaved(entry.key, what),
            callbacks.on_traffic,
        )
        self._connected: ConnectedServer | None = None
        self._life: asyncio.Task[None] | None = None
        self._began = 0.0
        self._subscribed: dict[str, None] = {}
        self._launch = _digest(entry)
        self._status = ServerStatus(key=entry.key, state=_first_state(entry), error=entry.problem, since=time.time())

    @property
    def launch(self) -> str | None:
        """`LaunchSpec.digest` of it."""
        return self._launch

    @property
    def status(self) -> ServerStatus:
        """Its status."""
        return self._status

    @property
    def features(self) -> ServerFeatures | None:
        """Its features; None while it is not ready."""
        ready = self._status.state == "ready" and self._connected is not None
        return self._connected.features if ready and self._connected is not None else None

    @property
    def ready(self) -> ConnectedServer | None:
        """The server while it is ready and its connection is not lost; None else."""
        connected = self._connected
        is_ready = self._status.state == "ready" and connected is not None and not connected.client.gone
        return connected if is_ready else None

    @property
    def identity(self) -> dict[str, Any]:
        """Trust and launch, as an `Action` about the server has them."""
        return {"trusted": self._status.trusted, "launch": self._launch}

    def want(self) -> None:
        """See that it is started, or about to be; one that was given up stays so until `restart`."""
        if self._status.state == "idle" and self._life is None:
            self._began = asyncio.get_running_loop().time()
            self._move(Event.NEEDED)
            self._life = asyncio.create_task(self._live(), name=f"dovetail-server-{self.entry.key}")

    def delays(self, now: float) -> float:
        """For how long others may still have to wait for it: only for its first start, and only so long."""
        if self._status.state in SETTLED or self._status.restarts:
            return 0.0
        return self._began + self._limits.wait_seconds - now

    @property
    def settled(self) -> bool:
        """True if it is ready, or will not be soon."""
        return self._status.state in SETTLED

    async def connected(self, seconds: float | None = None) -> ConnectedServer:
        """Wait until it is ready; raises `ConnectionLost` or `Refused` where it will not be."""
        self.want()
        loop = asyncio.get_running_loop()
        until = loop.time() + (self._limits.start_seconds if seconds is None else seconds)
        while True:
            status = self._status
            connected = self._connected
            if status.state == "ready" and connected is not None and not connected.client.gone:
                return connected
            left = until - loop.time()
            if status.state in ("failed", "disabled", "idle") or left <= 0:
                raise ConnectionLost(_unavailable(status))
            await self._change_signal.wait(left)

    async def restart(self) -> None:
        """Restart it, and forget earlier failures."""
        await self._ended()
        self._move(Event.RESTARTED, error=None)
        self.want()

    async def close(self) -> None:
        """End it, within bounds; a cancelled closer waits and is cancelled then."""
        life, self._life = self._life, None
        if life is None:
            return
        life.cancel()
        interrupted: asyncio.CancelledError | None = None
        until = asyncio.get_running_loop().time() + _CLOSE_SECONDS
        while not life.done() and asyncio.get_running_loop().time() < until:
            try:
                await asyncio.wait({life}, timeout=until - asyncio.get_running_loop().time())
            except asyncio.CancelledError as stop:
                interrupted = stop
        if interrupted is not None:
            raise interrupted

    async def become(self, entry: ServerEntry) -> None:
        """Be what the entry says now: whoever was running is ended."""
        await self._ended()
        self.entry, self._launch = entry, _digest(entry)
        self._status = ServerStatus(key=entry.key, state=_first_state(entry), error=entry.problem, since=time.time())

    async def _ended(self) -> None:
        """End it, also if somebody wants it again meanwhile."""
        while self._life is not None:
            await self.close()

    async def subscribe(self, uri: str) -> None:
        """Subscribe to a resource, also after a restart."""
        connected = await self.connected()
        await connected.subscribe(uri)
        self._subscribed[uri] = None

    async def unsubscribe(self, uri: str) -> None:
        """Unsubscribe from a resource."""
        self._subscribed.pop(uri, None)
        if self._connected is not None:
            await self._connected.unsubscribe(uri)

    def update(self, **fields: Any) -> None:
        """Say something else about it, in the same state."""
        before, self._status = self._status, msgspec.structs.replace(self._status, **fields)
        if before == self._status:
            return
        self._callbacks.emit(HostEvent(kind="status", server=self.entry.key, detail=self._status))
        self._change_signal.notify()

    def _move(self, event: Event, **fields: Any) -> None:
        """Make a transition; `fields` change with it."""
        state = TRANSITIONS[self._status.state, event]
        since = self._status.since if state is self._status.state else time.time()
        self.update(state=state, since=since, **fields)

    async def _live(self) -> None:
        failures, limits = 0, self._limits
        try:
            while True:
                problem, well_for = await self._once()
                failures = 1 if well_for >= limits.stable_seconds else failures + 1
                if isinstance(problem, Stopped):
                    # Nobody has said no: it is asked again when the server is wanted again.
                    self._life = None
                    self._move(Event.STOPPED)
                    return
                message = self.log.cover(str(problem))
                self.log.note("error", message)
                self._callbacks.misbehaved(self.entry.key, message)
                if _is_final(problem) or failures >= limits.attempts:
                    tries = f"; it was given up after {failures} failures in a row" if failures > 1 else ""
                    self._move(Event.GAVE_UP, error=f"{message}{tries}")
                    return
                pause = min(limits.first_pause * 2 ** (failures - 1), limits.longest_pause)
                self._move(Event.LOST, error=message, restarts=self._status.restarts + 1)
                # Servers that fell together, as by one network, do not all come back at the same moment.
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        except asyncio.CancelledError:
            self._move(Event.STOPPED)
            raise
        except Exception as problem:
            message = self.log.cover(f"{type(problem).__name__}: {problem}")
            self.log.note("error", message)
            self._move(Event.GAVE_UP, error=message)

    async def _once(self) -> tuple[Exception, float]:
        """One life of it: what ended it, and for how long it was ready."""
        loop, since = asyncio.get_running_loop(), None
        client: BoundedClient | None = None
        try:
            await self._callbacks.admit(self.entry)
            self._move(Event.APPROVED)
            self._began = loop.time()
            client = await self._callbacks.connect(self.entry, self.log)
            connected = await self._open(client)
            since = loop.time()
            reason = await connected.until_lost()
            return ConnectionLost(reason), loop.time() - since
        except (DovetailError, OSError) as problem:
            return problem, 0.0 if since is None else loop.time() - since
        finally:
            await self._end(client)

    async def _open(self, client: BoundedClient) -> ConnectedServer:
        try:
            async with asyncio.timeout(self._limits.start_seconds if self._is_program else None):
                await client.open()
        except TimeoutError as problem:
            if isinstance(problem, DovetailError):
                raise
            silent = f"It did not answer within {self._limits.start_seconds:g} s"
            raise ConnectionLost(with_last_output(silent, self.log.last_stderr())) from None
        connected = self._connected = ConnectedServer(
            client, self.log, self._limits, self._listed, self._callbacks.emit, self.entry.key
        )
        await connected.begin()
        self._move(Event.CONNECTED, revision=client.revision, era=client.era, server=_name_of(client))
        for uri in list(self._subscribed):
            try:
                await connected.subscribe(uri)
            except DovetailError as problem:
                self.log.note("warning", f"Changes of {uri} are not told of any more: {problem}")
        return connected

    @property
    def _is_program(self) -> bool:
        """True if it is started here; elsewhere each request has its time, and a user who has to log in has more."""
        return self.entry.spec is not None and self.entry.spec.kind == "stdio"

    async def _listed(self, features: ServerFeatures, changed: frozenset[ListKind]) -> None:
        await self._callbacks.listed(self.entry.key, features, changed)

    async def _end(self, client: BoundedClient | None) -> None:
        connected, self._connected = self._connected, None
        self._callbacks.ended(self.entry.key)
        try:
            if connected is not None:
                await connected.end()
        finally:
            if client is not None:
                await client.close()


def _first_state(entry: ServerEntry) -> State:
    if not entry.enabled:
        return State.DISABLED
    return State.FAILED if entry.problem is not None or entry.spec is None else State.IDLE


def _digest(entry: ServerEntry) -> str | None:
    return None if entry.spec is None else entry.spec.digest


def _is_final(problem: Exception) -> bool:
    """True if another try would end in the same way."""
    if isinstance(problem, HttpStatus):
        return 400 <= problem.status < 500 and problem.status not in (408, 425, 429)
    from dovetail.auth.errors import AuthorizationFailed

    return isinstance(problem, (Refused, LocalError, AuthorizationFailed))


def _name_of(client: BoundedClient) -> str | None:
    return None if client.server is None else clean_text(f"{client.server.name} {client.server.version}"[:200])


def _unavailable(status: ServerStatus) -> str:
    key = status.key
    if status.state == "disabled":
        return f"The server {key!r} is switched off"
    if status.state == "asking":
        return f"The server {key!r} waits for the user to let it start"
    why = f": {status.error}" if status.error else ""
    if status.state == "failed":
        return f"The server {key!r} is not running{why}"
    return f"The server {key!r} is not ready yet{why}"
