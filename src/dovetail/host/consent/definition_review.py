"""What servers say of their tools, prompts, templates and themselves, held against what was approved of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from dovetail.host.servers.bounded_client import ServerFeatures
from dovetail.policy.accepted_warnings import AcceptedWarnings
from dovetail.policy.definitions import Definition, DefinitionKind, define_all
from dovetail.policy.lockfile import Lock, LockFile
from dovetail.policy.review import Finding, review
from dovetail.protocol.errors import LocalError
from dovetail.runtime.thread_pool import ThreadPool

_FEW, _SMALL = 100, 50_000
"""Definitions, and bytes of them, that are looked through at once, in a few milliseconds."""


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """A definition that is neither offered nor used until the person approves it."""

    server: str
    kind: DefinitionKind
    name: str
    difference: str
    concerns: tuple[str, ...] = ()
    digest: str = ""
    """SHA-256 of what is shown, for `Host.approve`: the server may change it while the person reads."""


class ServerReview(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be said of all that one server offers."""

    digests: dict[tuple[DefinitionKind, str], str]
    """Of what may be used."""
    held: dict[tuple[DefinitionKind, str], Finding]


class DefinitionReview:
    """Knows what was approved; without a lockfile it knows it for as long as the host runs."""

    def __init__(self, file: Path | None, folder: Path | None, workers: ThreadPool) -> None:
        self._file = None if file is None else LockFile(file, folder)
        self._accepted = AcceptedWarnings(folder)
        self._workers = workers
        self._lock: Lock | None = None
        self._turn = asyncio.Lock()
        self._offers: dict[str, ServerFeatures] = {}
        self._reviewed: dict[str, ServerReview] = {}
        self.trusts: Callable[[str], bool] = lambda _: False
        """Whether the person trusts a server: how others name their tools says nothing against it then."""
        self._stale = False
        """Tools have come or gone: what looks wrong depends on the names of the other servers' tools."""

    async def take(self, server: str, offer: ServerFeatures) -> list[Finding]:
        """Take up what a server offers; what of it is held back from now on.

        What is offered at first contact, and looks well, is approved with the start of the server.
        """
        before = self._offers.get(server)
        self._offers[server] = offer
        if before is None or _names(before) != _names(offer):
            self._stale = True
        lock = await self._locked()
        findings = await self._findings(server, offer, lock)
        if server not in lock.servers:
            sound = [one.definition for one in findings if not one.quarantined]
            # Another program may have met the server first: what it was shown is what was approved.
            now = await self._change(
                lambda known: known if server in known.servers else known.with_server(server, sound)
            )
            findings = await self._findings(server, offer, now)
        return self._take_up(server, offer, findings)

    def forget(self, server: str) -> None:
        """A server offers nothing any more; what was approved of it stays approved."""
        self._offers.pop(server, None)
        self._reviewed.pop(server, None)

    async def look_again(self) -> list[Finding]:
        """See, after tools have come or gone, whether what one server says mentions those of another."""
        if not self._stale or self._lock is None:
            return []
        self._stale = False
        fresh: list[Finding] = []
        for server, offer in list(self._offers.items()):
            fresh += self._take_up(server, offer, await self._findings(server, offer, self._lock))
        return fresh

    def digest(self, server: str, kind: DefinitionKind, name: str) -> str | None:
        """SHA-256 of a definition that may be used; None for one that is held back, or unknown."""
        reviewed = self._reviewed.get(server)
        return None if reviewed is None else reviewed.digests.get((kind, name))

    def held(self, server: str, kind: DefinitionKind, name: str) -> Finding | None:
        """What there is to say of a definition that is held back."""
        reviewed = self._reviewed.get(server)
        return None if reviewed is None else reviewed.held.get((kind, name))

    def withheld(self, server: str | None = None) -> list[Withheld]:
        """All that is held back, of one server or of all."""
        return [
            as_withheld(finding)
            for key, reviewed in self._reviewed.items()
            if server in (None, key)
            for finding in reviewed.held.values()
        ]

    async def approve(self, finding: Finding) -> None:
        """Take up a definition as it was shown; if the server has changed it meanwhile, that one stays held back."""
        server, definition = finding.server, finding.definition
        await self._change(lambda known: known.with_definitions(server, definition))
        if finding.concerns:
            await self._workers.run(lambda: self._accepted.add(server, definition))
        offer = self._offers.get(server)
        if offer is not None:
            self._take_up(server, offer, await self._findings(server, offer, await self._locked()))

    async def _locked(self) -> Lock:
        if self._lock is not None:
            return self._lock
        file = self._file
        found: Lock | None = None if file is None else await self._workers.run(file.read)
        self._lock = found or Lock()
        return self._lock

    async def _change(self, new: Callable[[Lock], Lock]) -> Lock:
        file = self._file
        async with self._turn:
            if file is None:
                self._lock = new(await self._locked())
            else:
                # Another program may have approved something meanwhile: its word counts too.
                changed: Lock = await self._workers.run(lambda: file.change(new))
                self._lock = changed
            return self._lock

    def _take_up(self, server: str, offer: ServerFeatures, findings: list[Finding]) -> list[Finding]:
        """Go by what was found, unless the server offers something else by now; what is held back that was not."""
        if self._offers.get(server) is not offer:
            return []
        before = self._reviewed.get(server)
        held = {one.definition.key: one for one in findings if one.quarantined}
        self._reviewed[server] = ServerReview(
            digests={one.definition.key: one.definition.digest for one in findings if not one.quarantined}, held=held
        )
        known = {} if before is None else before.held
        return [
            one
            for key, one in held.items()
            if key not in known or known[key].definition.digest != one.definition.digest
        ]

    async def _findings(self, server: str, offer: ServerFeatures, lock: Lock) -> list[Finding]:
        trusted = self.trusts(server)
        others = {
            key: _names(other)
            for key, other in self._offers.items()
            if key != server and (not trusted or self.trusts(key))
        }

        def look() -> list[Finding]:
            return review(server, _definitions(offer), lock, others, self._accepted.has)

        # To read a hostile list of megabytes takes seconds, in which the other servers are not to wait.
        count = len(offer.tools) + len(offer.prompts) + len(offer.templates)
        return look() if count < _FEW and len(msgspec.json.encode(offer)) < _SMALL else await self._workers.run(look)


def as_withheld(finding: Finding) -> Withheld:
    """What is held back, as a person is told of it."""
    return Withheld(
        server=finding.server,
        kind=finding.definition.kind,
        name=finding.definition.name,
        difference=finding.difference,
        concerns=finding.concerns,
        digest=finding.definition.digest,
    )


def _definitions(offer: ServerFeatures) -> list[Definition]:
    return define_all((*offer.tools, *offer.prompts, *offer.templates), offer.instructions)


def _names(offer: ServerFeatures) -> list[str]:
    return [tool.name for tool in offer.tools]


def not_withheld(server: str, kind: str, name: str) -> LocalError:
    """Nothing of the kind is held back."""
    return LocalError(f"The server {server!r} has no {kind} {name!r} that is held back")
