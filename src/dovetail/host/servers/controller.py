"""Callbacks of the supervisors: approve a launch, build a client, review definitions, record misbehaviour."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dovetail.config.entries import ServerEntry
from dovetail.host.consent.consent import Consent
from dovetail.host.consent.definition_review import DefinitionReview
from dovetail.host.consent.server_requests import ServerRequestHandlers
from dovetail.host.consent.user_prompts import UserPrompts
from dovetail.host.events import HostEvent, OnEvent, OnTraffic
from dovetail.host.limits import Limits
from dovetail.host.running_work import RunningWork
from dovetail.policy.actions import Action
from dovetail.protocol.errors import ConnectionLost
from dovetail.runtime.rate_limit import TokenBuckets

from .bounded_client import BoundedClient, ListKind, ServerFeatures
from .definition_watch import MAX_ASKED, MAX_BURST, DefinitionWatch
from .launcher import Launcher
from .server_log import ServerLog
from .supervisor import ServerSupervisor

Identity = Callable[[], Mapping[str, Any]]
"""Gives the launch and the trust of a server, for its actions (`ServerSupervisor.identity`)."""


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a host that its servers need."""

    consent: Consent
    prompts: UserPrompts
    launcher: Launcher
    review: DefinitionReview
    running_work: RunningWork
    request_handlers: Callable[[str, Identity], ServerRequestHandlers]
    emit: OnEvent
    on_traffic: OnTraffic | None = None
    limits: Limits


class ServerController:
    """All servers of a host, by key, and the callbacks of their supervisors."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._launcher = context.launcher
        self._misbehaviour = TokenBuckets(context.limits.changes_per_second, MAX_BURST)
        self.servers: dict[str, ServerSupervisor] = {}
        self.definitions = DefinitionWatch(
            self.servers, context.consent, context.review, context.emit, self.misbehaved, context.limits
        )

    async def admit(self, entry: ServerEntry) -> None:
        """Obtain permission to start a server."""
        await self._launcher.admit(entry)
        if (server := self.servers.get(entry.key)) is not None:
            server.update(trusted=self._launcher.trusted(entry))

    async def connect(self, entry: ServerEntry, log: ServerLog) -> BoundedClient:
        """Build a client for a server, not open yet."""
        handlers = self._context.request_handlers(entry.key, lambda: self._identity(entry.key))
        reported: set[str] = set()

        def report(problem: str) -> None:
            # Lists are fetched again and again; what is wrong with them is reported once.
            if problem not in reported and len(reported) < MAX_ASKED:
                reported.add(problem)
                log.note("warning", problem)
                self.misbehaved(entry.key, problem)

        return await self._launcher.connect(entry, log, handlers, report)

    async def listed(self, key: str, features: ServerFeatures, changed: frozenset[ListKind]) -> None:
        """Compare what a server offers with what was approved, and emit what has changed."""
        known = self.servers[key].status.problems if key in self.servers else ()
        fresh = await self.definitions.update(key, features)
        for problem in features.problems.values():
            if problem not in known:
                self.misbehaved(key, problem)
        for kind in sorted(changed):
            self.emit(HostEvent(kind="lists", server=key, detail=kind))
        await self.definitions.hold_back(fresh)

    def misbehaved(self, key: str, what: str) -> None:
        """Record that a server broke off, or exceeded a limit."""
        if self._misbehaviour.take(key, time.monotonic()) > 0:
            return  # a server must not fill the disk; the log of the server has it
        action = Action(kind="launch", server=key, **self._identity(key))
        self._context.consent.note("launch", action, error=what)

    def ended(self, key: str) -> None:
        """Withdraw what a server that is gone has asked, and what was asked about it."""
        gone = ConnectionLost(f"The server {key!r} is gone")
        self._context.prompts.questions.drop(key, gone)
        self._context.running_work.drop(key, gone)
        self.definitions.forget(key)

    def emit(self, event: HostEvent) -> None:
        """Report an event."""
        self._context.emit(event)

    @property
    def on_traffic(self) -> OnTraffic | None:
        """Receives each message between the host and a server."""
        return self._context.on_traffic

    def _identity(self, key: str) -> Mapping[str, Any]:
        server = self.servers.get(key)
        return {} if server is None else server.identity
