"""Review of definitions: what servers offer is compared with what was approved, and held back if it differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from dovetail.host.servers.bounded_client import ServerFeatures
from dovetail.policy.definitions import Definition, DefinitionKind, define_all
from dovetail.policy.lockfile import Lock, LockFile
from dovetail.policy.review import Finding, review
from dovetail.policy.user_decisions import AcceptedWarnings
from dovetail.protocol.errors import LocalError
from dovetail.runtime.thread_pool import ThreadPool

_FEW, _SMALL = 100, 50_000
"""Definitions, and bytes of them, that are looked through at once, in a few milliseconds."""


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """A definition that is neither offered nor used until the user approves it."""

    server: str
    kind: DefinitionKind
    name: str
    difference: str
    concerns: tuple[str, ...] = ()
    digest: str = ""
    """SHA-256 of what is shown, for `Host.approve`: the server may change it while the user reads."""


class ServerReview(msgspec.Struct, frozen=True, kw_only=True):
    """The review of one server's definitions."""

    digests: dict[tuple[DefinitionKind, str], str]
    """Of what may be used."""
    held: dict[tuple[DefinitionKind, str], Finding]


class DefinitionReview:
    """Approved definitions and the findings about others; without a lockfile approvals last as long as the host."""

    def __init__(self, file: Path | None, folder: Path | None, thread_pool: ThreadPool) -> None:
        self._file = None if file is None else LockFile(file, folder)
        self._accepted = AcceptedWarnings(folder)
        self._thread_pool = thread_pool
        self._lock: Lock | None = None
        self._turn = asyncio.Lock()
        self._features: dict[str, ServerFeatures] = {}
        self._reviewed: dict[str, ServerReview] = {}
        self.trusts: Callable[[str], bool] = lambda _: False
        """True if the user trusts a server: how others name their tools says nothing against it then."""
        self._stale = False
        """Tools have come or gone: what looks wrong depends on the names of the other servers' tools."""

    async def update(self, server: str, features: ServerFeatures) -> list[Finding]:
        """Take up what a server offers; what of it is held back from now on.

        What is offered at first contact, and looks well, is approved with the start of the server.
        """
        before = self._features.get(server)
        self._features[server] = features
        if before is None or _names(before) != _names(features):
            self._stale = True
        lock = await self._locked()
        findings = await self._findings(server, features, lock)
        if server not in lock.servers:
            sound = [one.definition for one in findings if not one.quarantined]
            # Another program may have met the server first: what it was shown is what was approved.
            now = await self._change(
                lambda known: known if server in known.servers else known.with_server(server, sound)
            )
            findings = await self._findings(server, features, now)
        return self._update_review(server, features, findings)

    def forget(self, server: str) -> None:
        """A server offers nothing any more; what was approved of it stays approved."""
        self._features.pop(server, None)
        self._reviewed.pop(server, None)

    @property
    def is_outdated(self) -> bool:
        """True if tools have come or gone since the last review: `review_again`."""
        return self._stale and self._lock is not None

    async def review_again(self) -> list[Finding]:
        """See, after tools have come or gone, whether what one server says mentions those of another."""
        if not self.is_outdated or self._lock is None:
            return []
        self._stale = False
        fresh: list[Finding] = []
        for server, features in list(self._features.items()):
            fresh += self._update_review(server, features, await self._findings(server, features, self._lock))
        return fresh

    def digest(self, server: str, kind: DefinitionKind, name: str) -> str | None:
        """SHA-256 of a definition that may be used; None for one that is held back, or unknown."""
        reviewed = self._reviewed.get(server)
        return None if reviewed is None else reviewed.digests.get((kind, name))

    def held(self, server: str, kind: DefinitionKind, name: str) -> Finding | None:
        """The finding about a definition that is held back; None if it is not."""
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
            await self._thread_pool.run(lambda: self._accepted.add(server, definition))
        features = self._features.get(server)
        if features is not None:
            self._update_review(server, features, await self._findings(server, features, await self._locked()))

    async def _locked(self) -> Lock:
        if self._lock is not None:
            return self._lock
        file = self._file
        lock: Lock | None = None if file is None else await self._thread_pool.run(file.read)
        self._lock = lock or Lock()
        return self._lock

    async def _change(self, new: Callable[[Lock], Lock]) -> Lock:
        file = self._file
        async with self._turn:
            if file is None:
                self._lock = new(await self._locked())
            else:
                # Another program may have approved something meanwhile: its word counts too.
                changed: Lock = await self._thread_pool.run(lambda: file.change(new))
                self._lock = changed
            return self._lock

    def _update_review(self, server: str, features: ServerFeatures, findings: list[Finding]) -> list[Finding]:
        """Go by what was found, unless the server offers something else by now; what is held back that was not."""
        if self._features.get(server) is not features:
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

    async def _findings(self, server: str, features: ServerFeatures, lock: Lock) -> list[Finding]:
        trusted = self.trusts(server)
        others = {
            key: _names(other)
            for key, other in self._features.items()
            if key != server and (not trusted or self.trusts(key))
        }

        def look() -> list[Finding]:
            return review(server, _definitions(features), lock, others, self._accepted.has)

        # To read a hostile list of megabytes takes seconds, in which the other servers are not to wait.
        count = len(features.tools) + len(features.prompts) + len(features.templates)
        return (
            look()
            if count < _FEW and len(msgspec.json.encode(features)) < _SMALL
            else await self._thread_pool.run(look)
        )


def as_withheld(finding: Finding) -> Withheld:
    """A finding as it is shown to the user."""
    return Withheld(
        server=finding.server,
        kind=finding.definition.kind,
        name=finding.definition.name,
        difference=finding.difference,
        concerns=finding.concerns,
        digest=finding.definition.digest,
    )


def _definitions(features: ServerFeatures) -> list[Definition]:
    return define_all((*features.tools, *features.prompts, *features.templates), features.instructions)


def _names(features: ServerFeatures) -> list[str]:
    return [tool.name for tool in features.tools]


def not_withheld(server: str, kind: str, name: str) -> LocalError:
    """Nothing of the kind is held back."""
    return LocalError(f"The server {server!r} has no {kind} {name!r} that is held back")
