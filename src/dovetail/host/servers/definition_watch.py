"""Definition watch: compares what servers offer with what was approved, and asks the user about what is held back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from dovetail.host.consent.consent import Consent
from dovetail.host.consent.definition_review import DefinitionReview, as_withheld
from dovetail.host.events import HostEvent, OnEvent
from dovetail.host.limits import Limits
from dovetail.host.running_work import Stopped
from dovetail.policy.actions import Action
from dovetail.policy.review import Finding
from dovetail.protocol.errors import DovetailError, Refused
from dovetail.runtime.rate_limit import TokenBuckets

from .bounded_client import ServerFeatures
from .supervisor import ServerSupervisor

MAX_ASKED = 50
"""Definitions of one server that the user is asked about unprompted; more wait for `Host.approve`."""

MAX_BURST = 200
_TOO_MANY_CHANGES = "Its definitions change faster than anybody can follow; further ones are held back unrecorded"

_LISTS = {"tool": "tools", "prompt": "prompts", "template": "templates", "instructions": "instructions"}


class DefinitionWatch:
    """Definitions of all servers: held back where they are not what was approved, and asked about one by one."""

    def __init__(
        self,
        servers: Mapping[str, ServerSupervisor],
        consent: Consent,
        review: DefinitionReview,
        emit: OnEvent,
        report_misbehaviour: Callable[[str, str], None],
        limits: Limits,
    ) -> None:
        self._servers = servers
        self._consent = consent
        self._review = review
        self._emit = emit
        self._report_misbehaviour = report_misbehaviour
        self._changes = TokenBuckets(limits.changes_per_second, MAX_BURST)
        self._unrecorded: set[str] = set()
        """Servers whose definitions change faster than is recorded."""
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._queues: dict[str, list[Finding]] = {}
        self._answered: set[tuple[str, str, str, str]] = set()
        """Definitions that the user has said yes or no to; they are not asked about again."""
        review.trusts = self._is_trusted

    @property
    def is_asking(self) -> bool:
        """True if the user is being asked about a definition."""
        return bool(self._asking)

    async def update(self, key: str, features: ServerFeatures) -> list[Finding]:
        """Compare what a server offers with what was approved; the definitions that are held back from now on."""
        fresh = await self._review.update(key, features)
        self._show_counts(key, features)
        return fresh

    async def review_again(self) -> bool:
        """Hold back what has become suspicious now that other servers offer other tools; True if it has looked."""
        if not self._review.is_outdated:
            return False
        if fresh := await self._review.review_again():
            await self.hold_back(fresh)
        return True

    async def hold_back(self, findings: list[Finding]) -> None:
        """Report definitions that are held back, record them, and ask the user about them one after the other."""
        if len(findings) > MAX_ASKED:
            more = len(findings) - MAX_ASKED
            self._report_misbehaviour(
                findings[0].server, f"{more} more definitions are held back than are recorded one by one"
            )
        for finding in findings[:MAX_ASKED]:
            if self._changes.take(finding.server, time.monotonic()) > 0:
                if finding.server not in self._unrecorded:
                    self._unrecorded.add(finding.server)
                    self._report_misbehaviour(finding.server, _TOO_MANY_CHANGES)
                continue
            self._unrecorded.discard(finding.server)
            self._emit(HostEvent(kind="definition", server=finding.server, detail=as_withheld(finding)))
            await self._consent.record(
                "definition",
                self._action(finding),
                "nobody",
                "held back until the user approves it",
                difference=finding.difference,
                concerns=finding.concerns,
            )
            self._ask_later(finding)

    async def approve(self, finding: Finding, by: str, rule: str) -> None:
        """Approve a definition that was held back; what cannot be recorded is not approved."""
        decider = "policy" if by == "policy" else "person"
        await self._consent.record("definition", self._action(finding), decider, rule, difference=finding.difference)
        await self._review.approve(finding)
        server = self._servers.get(finding.server)
        if server is not None and server.features is not None:
            self._show_counts(finding.server, server.features)
            self._emit(HostEvent(kind="lists", server=finding.server, detail=_LISTS[finding.definition.kind]))

    def forget(self, key: str) -> None:
        """Drop a server that is gone, and the questions about its definitions."""
        self._review.forget(key)
        self._queues.pop(key, None)

    async def close(self) -> None:
        """Withdraw every question."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _show_counts(self, key: str, features: ServerFeatures) -> None:
        server = self._servers.get(key)
        if server is not None:
            server.update(
                tools=len(features.tools),
                prompts=len(features.prompts),
                resources=len(features.resources),
                templates=len(features.templates),
                quarantined=len(self._review.withheld(key)),
                problems=tuple(features.problems.values()),
            )

    def _ask_later(self, finding: Finding) -> None:
        key = finding.server
        if self._review.held(key, *finding.definition.key) is None:
            return  # the server is gone, or has changed it back, while the record was written
        queue = self._queues.setdefault(key, [])
        if _mark(finding) in self._answered or len(queue) >= MAX_ASKED:
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
        key, action = finding.server, self._action(finding)
        if not self._consent.asks and self._consent.decide(action).verdict == "ask":
            return
        try:
            permission = await self._consent.authorize(action, lambda _: finding.question)
            self._answered.add(_mark(finding))
            if self._review.held(key, *finding.definition.key) is not None:
                await self.approve(finding, permission.by, permission.rule)
        except Stopped:
            return
        except Refused:
            self._answered.add(_mark(finding))
        except DovetailError as problem:
            server = self._servers.get(key)
            if server is not None:
                server.log.note("error", f"{finding.definition} was not approved: {problem}")

    def _action(self, finding: Finding) -> Action:
        definition, server = finding.definition, self._servers.get(finding.server)
        about: dict[str, Any] = {} if server is None else server.identity
        return Action(
            kind="definition",
            server=finding.server,
            name=definition.name or definition.kind,
            definition=definition.digest,
            **about,
        )

    def _is_trusted(self, key: str) -> bool:
        server = self._servers.get(key)
        return server is not None and server.status.trusted


def _mark(finding: Finding) -> tuple[str, str, str, str]:
    return (finding.server, *finding.definition.key, finding.definition.digest)
