"""A host in a folder of its own, the servers it runs, and a person who answers as a test says."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec

from dovetail.config.entries import ServerEntry
from dovetail.config.launch_spec import LaunchSpec
from dovetail.host.events import HostEvent
from dovetail.host.host import Host
from dovetail.host.limits import Limits
from dovetail.policy.approval_questions import LaunchQuestion, Question, Reply, Yes
from dovetail.policy.audit.log import Audit
from tests.support.tidy import nothing_left_on_the_loop

PROGRAMS = Path(__file__).parent / "programs"
HOSTILE = Path(__file__).parent / "hostile"

QUICK = Limits(
    start_seconds=10,
    wait_seconds=5,
    list_seconds=3,
    call_seconds=10,
    first_pause=0.05,
    longest_pause=0.2,
    refresh_seconds=0.05,
    attempts=3,
)


def entry(key: str, program: Path | str = "plain.py", *words: str, **fields: Any) -> ServerEntry:
    """A server written in Python."""
    path = program if isinstance(program, Path) else PROGRAMS / program
    spec = LaunchSpec(kind="stdio", command=(sys.executable, str(path), *words), **fields)
    return ServerEntry(key=key, spec=spec)


class Somebody:
    """A person who lets servers start, and says to everything else what they are told to."""

    def __init__(self, answer: Callable[[Question], Reply] | Reply = True) -> None:
        self.asked: list[Question] = []
        self.events: list[HostEvent] = []
        self._answer = answer

    async def approve(self, question: Question) -> Reply:
        """Answer one question."""
        self.asked.append(question)
        if callable(self._answer):
            return self._answer(question)
        return Yes() if isinstance(question, LaunchQuestion) else self._answer

    def heard(self, event: HostEvent) -> None:
        """Take note of an event."""
        self.events.append(event)

    def of(self, kind: str, server: str | None = None) -> list[HostEvent]:
        """The events of a kind."""
        return [event for event in self.events if event.kind == kind and server in (None, event.server)]


@contextlib.asynccontextmanager
async def hosting(
    folder: Path, *entries: ServerEntry, person: Somebody | None = None, limits: Limits = QUICK, **options: Any
) -> AsyncIterator[Host]:
    """A host that leaves nothing behind: no process, no task, no thread."""
    if person is not None:
        options = {"on_approve": person.approve, "on_event": person.heard, **options}
    async with nothing_left_on_the_loop(), Host(entries, folder=folder / "user", limits=limits, **options) as host:
        yield host


def records(audit: Audit, *events: str) -> list[dict[str, Any]]:
    """The records of an audit log, of some events or of all, including those that wait to be written."""
    audit.flush()
    lines = audit.path.read_bytes().splitlines()
    found = [msgspec.json.decode(line, type=dict[str, Any]) for line in lines]
    return [record for record in found if not events or record["event"] in events]
