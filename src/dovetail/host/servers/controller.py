"""What the house does for each of its servers: lets them start, answers them, and looks at what they offer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from dovetail.host.consent.consent import Consent
from dovetail.host.consent.definition_review import DefinitionReview, as_withheld
from dovetail.host.consent.server_requests import ServerRequestHandlers
from dovetail.host.consent.user_prompts import UserPrompts
from dovetail.host.entries import ServerEntry
from dovetail.host.events import HostEvent
from dovetail.host.limits import Limits
from dovetail.host.running_work import RunningWork, Stopped
from dovetail.policy.actions import Action
from dovetail.policy.review import Finding
from dovetail.protocol.errors import ConnectionLost, DovetailError, Refused
from dovetail.runtime.rate_limit import Buckets

from .bounded_client import BoundedClient, ListKind, ServerFeatures
from .launcher import Launcher
from .server_log import ServerLog
from .supervisor import ServerSupervisor

_MOST_ASKED = 50
"""Definitions of one server that a person is asked about by themselves; more wait until they are asked for."""

_MOST_CHANGES = 200
_RESTLESS = "Its definitions change faster than anybody can follow; further ones are held back unrecorded"

_LISTS = {"tool": "tools", "prompt": "prompts", "template": "templates", "instructions": "instructions"}


class ServerController:
    """The one for all servers; each is known by its key."""

    def __init__(
        self,
        consent: Consent,
        person: UserPrompts,
        launching: Launcher,
        quarantine: DefinitionReview,
        under_way: RunningWork,
        answering: Callable[[str, Callable[[], Mapping[str, Any]]], ServerRequestHandlers],
        tell: Callable[[HostEvent], None],
        limits: Limits,
    ) -> None:
        self._consent = consent
        self._person = person
        self._launching = launching
        self._quarantine = quarantine
        self._under_way = under_way
        self._answering = answering
        self._tell = tell
        self._changes = Buckets(limits.changes_per_second, _MOST_CHANGES)
        self._misdeeds = Buckets(limits.changes_per_second, _MOST_CHANGES)
        self._restless: set[str] = set()
        """Servers whose definitions change faster than is recorded."""
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._queues: dict[str, list[Finding]] = {}
        self._asked: set[tuple[str, str, str, str]] = set()
        self.servers: dict[str, ServerSupervisor] = {}
        quarantine.trusts = self._trusts

    async def admit(self, entry: ServerEntry) -> None:
        """Ask whether a server may be started."""
        await self._launching.admit(entry)
        if (server := self.servers.get(entry.key)) is not None:
            server.update(trusted=self._launching.trusted(entry))

    async def connect(self, entry: ServerEntry, journal: ServerLog) -> BoundedClient:
        """A client for it, not open yet."""
        answering = self._answering(entry.key, lambda: self._about(entry.key))
        left_out: set[str] = set()

        def note(problem: str) -> None:
            # Lists are fetched again and again, and what is wrong with them is said once.
            if problem not in left_out and len(left_out) < _MOST_ASKED:
                left_out.add(problem)
                journal.note("warning", problem)
                self.misbehaved(entry.key, problem)

        return await self._launching.connect(entry, journal, answering, note)

    async def listed(self, key: str, offer: ServerFeatures, changed: frozenset[ListKind]) -> None:
        """Hold what a server offers against what was approved, and tell of what has changed."""
        fresh = await self._quarantine.take(key, offer)
        known = self.servers[key].status.problems if key in self.servers else ()
        for problem in offer.problems.values():
            if problem not in known:
                self.misbehaved(key, problem)
        self._report(key, offer)
        for kind in sorted(changed):
            self._tell(HostEvent(kind="lists", server=key, detail=kind))
        self._hold_back(fresh)

    def misbehaved(self, key: str, what: str) -> None:
        """Write down that a server broke off, or overstepped a limit."""
        if self._misdeeds.take(key, time.monotonic()) > 0:
            return  # the disk is not theirs to fill; the log of the server has it
        self._consent.note("launch", Action(kind="launch", server=key, **self._about(key)), error=what)

    def ended(self, key: str) -> None:
        """It is gone: what it asked, and what was asked about it, is withdrawn."""
        gone = ConnectionLost(f"The server {key!r} is gone")
        self._person.questions.drop(key, gone)
        self._under_way.drop(key, gone)
        self._quarantine.forget(key)
        self._queues.pop(key, None)

    def tell(self, event: HostEvent) -> None:
        """Tell of an event."""
        self._tell(event)

    async def look_again(self) -> None:
        """Hold back what has come to look wrong now that other tools are there."""
        if fresh := await self._quarantine.look_again():
            self._hold_back(fresh)

    async def approve(self, finding: Finding, by: str, rule: str) -> None:
        """Take up a definition that was held back; what cannot be recorded is not taken up."""
        server = self.servers.get(finding.server)
        decider = "policy" if by == "policy" else "person"
        self._consent.record(
            "definition", self._about_definition(finding), decider, rule, difference=finding.difference
        )
        await self._quarantine.approve(finding)
        if server is not None and server.offer is not None:
            self._report(finding.server, server.offer)
            self._tell(HostEvent(kind="lists", server=finding.server, detail=_LISTS[finding.definition.kind]))

    async def close(self) -> None:
        """Ask no more."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _report(self, key: str, offer: ServerFeatures) -> None:
        server = self.servers.get(key)
        if server is not None:
            server.update(
                tools=len(offer.tools),
                prompts=len(offer.prompts),
                resources=len(offer.resources),
                templates=len(offer.templates),
                quarantined=len(self._quarantine.withheld(key)),
                problems=tuple(offer.problems.values()),
            )

    def _hold_back(self, findings: list[Finding]) -> None:
        if len(findings) > _MOST_ASKED:
            more = len(findings) - _MOST_ASKED
            self.misbehaved(findings[0].server, f"{more} more definitions are held back than are recorded one by one")
        for finding in findings[:_MOST_ASKED]:
            if self._changes.take(finding.server, time.monotonic()) > 0:
                if finding.server not in self._restless:
                    self._restless.add(finding.server)
                    self.misbehaved(finding.server, _RESTLESS)
                continue
            self._restless.discard(finding.server)
            self._tell(HostEvent(kind="definition", server=finding.server, detail=as_withheld(finding)))
            self._consent.record(
                "definition",
                self._about_definition(finding),
                "nobody",
                "held back until the person approves it",
                difference=finding.difference,
                concerns=finding.concerns,
            )
            self._ask_later(finding)

    def _ask_later(self, finding: Finding) -> None:
        key = finding.server
        queue = self._queues.setdefault(key, [])
        if _mark(finding) in self._asked or len(queue) >= _MOST_ASKED:
            return
        queue.append(finding)
        if key not in self._asking:
            self._asking[key] = asyncio.create_task(self._ask_all(key), name=f"dovetail-definitions-{key}")

    async def _ask_all(self, key: str) -> None:
        """Ask about one definition after the other; a server that changes many does not fill the screen."""
        try:
            while queue := self._queues.get(key):
                await self._ask(queue.pop(0))
        finally:
            del self._asking[key]

    async def _ask(self, finding: Finding) -> None:
        key, action = finding.server, self._about_definition(finding)
        if not self._consent.asks and self._consent.decide(action).verdict == "ask":
            return
        try:
            settled = await self._consent.settle(action, lambda _: finding.question)
            self._asked.add(_mark(finding))
            if self._quarantine.held(key, *finding.definition.key) is not None:
                await self.approve(finding, settled.by, settled.rule)
        except Stopped:
            return
        except Refused:
            self._asked.add(_mark(finding))
        except DovetailError as problem:
            server = self.servers.get(key)
            if server is not None:
                server.journal.note("error", f"{finding.definition} was not taken up: {problem}")

    def _about_definition(self, finding: Finding) -> Action:
        definition = finding.definition
        return Action(
            kind="definition",
            server=finding.server,
            name=definition.name or definition.kind,
            definition=definition.digest,
            **self._about(finding.server),
        )

    def _trusts(self, key: str) -> bool:
        server = self.servers.get(key)
        return server is not None and server.status.trusted

    def _about(self, key: str) -> dict[str, Any]:
        server = self.servers.get(key)
        return {} if server is None else {"trusted": server.status.trusted, "launch": server.launch}


def _mark(finding: Finding) -> tuple[str, str, str, str]:
    return (finding.server, *finding.definition.key, finding.definition.digest)
