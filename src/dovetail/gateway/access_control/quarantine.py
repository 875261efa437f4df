"""Quarantine: definitions that differ from the lockfile are neither listed nor used until they are locked again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dovetail.gateway.catalogue import ServerOffers
from dovetail.gateway.servers.connection import Offers
from dovetail.policy.definitions import Definition, DefinitionKind, define_all
from dovetail.policy.lockfile import Lock, LockFile
from dovetail.policy.review import Finding, review
from dovetail.policy.user_decisions import AcceptedWarnings
from dovetail.types.bounded_dict import BoundedDict

MAX_REVIEWS = 1000
"""Reviewed lists that are remembered."""


class Held(msgspec.Struct, frozen=True):
    """A definition that is held back, and why."""

    kind: DefinitionKind
    name: str
    reason: str


class _Reviewed(msgspec.Struct, frozen=True):
    offers: Offers
    held: tuple[Held, ...]


class Quarantine:
    """Compares what servers offer with a lockfile, which others write: `dovetail lock`, or a host.

    A server that the lockfile does not have is held back as a whole: only a person decides what is locked.
    """

    def __init__(self, path: Path, folder: Path | None = None) -> None:
        self.path = path
        self._file = LockFile(path, folder)
        self._accepted = AcceptedWarnings(folder)
        self._lock = self._file.read() or Lock()
        self._stamp = self._read_stamp()
        self._reviewed: BoundedDict[tuple[str, int], _Reviewed] = BoundedDict(MAX_REVIEWS)
        self._latest: dict[str, tuple[Held, ...]] = {}

    def held(self, server: str) -> tuple[Held, ...]:
        """The definitions of a server that are held back."""
        return self._latest.get(server, ())

    def allows_instructions(self, server: str, text: str) -> bool:
        """True if the instructions of a server are those that were locked."""
        locked = self._lock.find(server, "instructions", "")
        return locked is not None and locked.digest == define_all((), text)[0].digest

    async def look_again(self) -> bool:
        """Read the lockfile if it has changed; True if its contents are others."""
        stamp = await asyncio.to_thread(self._read_stamp)
        if stamp == self._stamp:
            return False
        lock = await asyncio.to_thread(self._file.read) or Lock()
        self._stamp = stamp
        # A review also depends on what the user has accepted, which `dovetail lock` writes at the same time.
        self._lock = lock
        self._reviewed.clear()
        return True

    async def passed(self, parts: Sequence[ServerOffers]) -> list[ServerOffers]:
        """The offers of several servers without what is held back."""
        names = {part.server: [tool.name for tool in part.offers.tools] for part in parts}
        return [ServerOffers(part.server, (await self._review(part, names)).offers) for part in parts]

    async def _review(self, part: ServerOffers, names: Mapping[str, Collection[str]]) -> _Reviewed:
        key = (part.server, part.offers.version)
        found = self._reviewed.get_and_refresh(key)
        if found is None:
            # Off the event loop: the inspection of a thousand definitions takes a while.
            found = await asyncio.to_thread(self._compare, part.server, part.offers, names, self._lock)
            self._reviewed[key] = found
        self._latest[part.server] = found.held
        return found

    def _compare(self, server: str, offers: Offers, names: Mapping[str, Collection[str]], lock: Lock) -> _Reviewed:
        offered = define_all((*offers.tools, *offers.prompts, *offers.templates))
        others = {key: tools for key, tools in names.items() if key != server}
        findings = review(server, offered, lock, others, self._accepted.has)
        known = server in lock.servers
        held = tuple(
            Held(one.definition.kind, one.definition.name, self._why(one, known=known))
            for one in findings
            if one.quarantined or not known
        )
        if not held:
            return _Reviewed(offers, ())
        back = {(one.kind, one.name) for one in held}
        passed = Offers(
            tools=tuple(tool for tool in offers.tools if ("tool", tool.name) not in back),
            prompts=tuple(prompt for prompt in offers.prompts if ("prompt", prompt.name) not in back),
            resources=offers.resources if known else (),
            templates=tuple(one for one in offers.templates if ("template", one.uri_template) not in back),
            tasks=offers.tasks,
            fetched=offers.fetched,
        )
        return _Reviewed(passed, held)

    def _why(self, finding: Finding, *, known: bool) -> str:
        # Callers see it too: the name of the file tells them enough.
        if not known:
            return f"its server is not in {self.path.name}; review it and run `dovetail lock`"
        if finding.status == "new":
            return f"it is not in {self.path.name}; review it and run `dovetail lock`"
        if finding.status == "changed":
            return f"it differs from {self.path.name}; review the change and run `dovetail lock`"
        return f"it looks suspicious ({finding.concerns[0]}); accept it with `dovetail lock --accept`"

    def _read_stamp(self) -> tuple[int, ...] | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def digest_of(definition: Any) -> str:
    """SHA-256 of the definition of a tool, prompt or template."""
    found: Definition = define_all((definition,))[0]
    return found.digest
