"""Quarantine: definitions that differ from the lockfile are neither listed nor used until they are locked again."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from dovetail.gateway.catalogue import ServerOffers
from dovetail.gateway.servers.connection import Offers
from dovetail.policy.definitions import Definition, DefinitionKind, define_all
from dovetail.policy.inspection.invisible_chars import show_hidden
from dovetail.policy.lockfile import Lock, LockFile
from dovetail.policy.review import Finding, review
from dovetail.policy.user_decisions import AcceptedWarnings
from dovetail.types.bounded_dict import BoundedDict
from dovetail.uri_template.template import UriTemplate

logger = logging.getLogger("dovetail")

MAX_REVIEWS = 1000
"""Reviewed lists that are remembered."""

MAX_WARNINGS = 1000
"""Warnings that are remembered, so that each is logged once."""

MAX_NAMED = 3
MAX_NAME = 64
"""Names of definitions that a notice gives, and the characters of each: they are texts of the server."""


class Held(msgspec.Struct, frozen=True):
    """A definition that is held back, and why."""

    kind: DefinitionKind | Literal["resource"]
    name: str
    """Of a template its URI template, of a resource its URI."""
    reason: str

    def has_uri(self, uri: str) -> bool:
        """True for a resource or template with this URI, and for a template that matches it."""
        if self.kind not in ("resource", "template"):
            return False
        try:
            return self.name == uri or (self.kind == "template" and UriTemplate(self.name).match(uri) is not None)
        except ValueError:
            return False  # no template, so that nobody can expand it either


class Passed(NamedTuple):
    """The offers of several servers without what is held back, and what that is, by server."""

    parts: list[ServerOffers]
    held: dict[str, Sequence[Held]]
    held_servers: dict[str, str]
    """The servers that are held back as a whole, with whatever they may offer, and why."""


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
        self._stamp = self._read_stamp()
        self._lock = self._read()
        self._reviewed: BoundedDict[tuple[str, int, bytes], _Reviewed] = BoundedDict(MAX_REVIEWS)
        """By server, version of its offers, and digest of the names of all tools, as no definition may mention them."""
        self._latest: dict[str, tuple[Held, ...]] = {}
        self._warned: BoundedDict[tuple[str, tuple[Held, ...]], None] = BoundedDict(MAX_WARNINGS)

    def held(self, server: str) -> tuple[Held, ...]:
        """The definitions of a server that are held back."""
        return self._latest.get(server, ())

    def allows_instructions(self, server: str, text: str) -> bool:
        """True if the instructions of a server are those that were locked."""
        locked = self._lock.find(server, "instructions", "")
        if locked is not None and locked.digest == define_all((), text)[0].digest:
            return True
        if server in self._lock.servers:  # otherwise the log says of the whole server that it is held back
            self._warn(server, (Held("instructions", "instructions", ""),))
        return False

    async def look_again(self) -> bool:
        """Read the lockfile if it has changed; True if its contents are others."""
        stamp = await asyncio.to_thread(self._read_stamp)
        if stamp == self._stamp:
            return False
        lock = await asyncio.to_thread(self._read)
        self._stamp = stamp
        # A review also depends on what the user has accepted, which `dovetail lock` writes at the same time.
        self._lock = lock
        self._reviewed.clear()
        self._warned.clear()
        return True

    def _read(self) -> Lock:
        lock = self._file.read()
        if lock is None:
            logger.warning(
                "There is no lockfile %s: everything that the servers offer is held back. Correct the path, or run "
                "`dovetail lock`, which writes mcp.lock beside the configuration file",
                self.path,
            )
        return lock or Lock()

    async def passed(self, parts: Sequence[ServerOffers]) -> Passed:
        """The offers of several servers without what is held back."""
        names = {part.server: sorted(tool.name for tool in part.offers.tools) for part in parts}
        digest = hashlib.sha256(msgspec.json.encode(names, order="sorted")).digest()
        while True:
            lock = self._lock
            reviewed = {part.server: await self._review(part, names, digest, lock) for part in parts}
            if lock is self._lock:  # otherwise the lockfile has changed meanwhile
                break
        return Passed(
            [ServerOffers(server, one.offers) for server, one in reviewed.items()],
            {server: one.held for server, one in reviewed.items() if one.held},
            {server: self._unknown for server in reviewed if server not in lock.servers},
        )

    async def _review(
        self, part: ServerOffers, names: Mapping[str, Collection[str]], digest: bytes, lock: Lock
    ) -> _Reviewed:
        key = (part.server, part.offers.version, digest)
        found = self._reviewed.get_and_refresh(key)
        if found is None:
            # Off the event loop: the inspection of a thousand definitions takes a while.
            found = await asyncio.to_thread(self._compare, part.server, part.offers, names, lock)
            if lock is self._lock:
                self._reviewed[key] = found
                self._warn(part.server, found.held)
        self._latest[part.server] = found.held
        return found

    def _warn(self, server: str, held: tuple[Held, ...]) -> None:
        """Log what is held back, once until the lockfile or the definitions change."""
        if held and (server, held) not in self._warned:
            self._warned[server, held] = None
            logger.warning("The server %r: %s. The lockfile is %s", server, held_back(held), self.path)

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
        if not known:
            # Resources are not locked one by one: they are those of a server that somebody has reviewed, or of none.
            held += tuple(Held("resource", one.uri, self._unknown) for one in offers.resources)
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
            return self._unknown
        if finding.status == "new":
            return f"it is not in {self.path.name}; review it and run `dovetail lock`"
        if finding.status == "changed":
            return f"it differs from {self.path.name}; review the change and run `dovetail lock`"
        return f"it looks suspicious ({finding.concerns[0]}); accept it with `dovetail lock --accept`"

    @property
    def _unknown(self) -> str:
        return f"its server is not in {self.path.name}; review it and run `dovetail lock`"

    def _read_stamp(self) -> tuple[int, ...] | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def held_back(held: Sequence[Held]) -> str:
    """The sentence for clients and the log about definitions of one server that are held back."""
    names = ", ".join(_shown(one.name) for one in held[:MAX_NAMED])
    more = f" and {len(held) - MAX_NAMED} more" if len(held) > MAX_NAMED else ""
    if len(held) == 1:
        return f"1 definition is held back: {names}; review it and run `dovetail lock`"
    return f"{len(held)} definitions are held back: {names}{more}; review them and run `dovetail lock`"


def _shown(name: str) -> str:
    """A name as a text of a server that nobody has reviewed: short, and without what a terminal obeys."""
    shown = show_hidden(" ".join(name.split()))
    return shown if len(shown) <= MAX_NAME else f"{shown[: MAX_NAME - 1]}…"


def digest_of(definition: Any) -> str:
    """SHA-256 of the definition of a tool, prompt or template."""
    found: Definition = define_all((definition,))[0]
    return found.digest
