"""What the tests of the matrix stand on: a connection to the server with everything, and an oracle on it."""

import asyncio
import contextlib
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from dovetail import Client, Extension, Server
from dovetail.protocol.revisions import ENVELOPE, HANDSHAKE, REVISIONS
from dovetail.transports.base import Channel
from dovetail.transports.memory import memory_pair
from dovetail.transports.process import ProcessChannel
from tests.matrix import everything, odd_servers
from tests.matrix.odd_servers import OddServer
from tests.support.oracle import Oracle
from tests.support.wire import Wire

Transport = Literal["memory", "stdio"]
TRANSPORTS: tuple[Transport, ...] = ("memory", "stdio")
SCRIPT = str(Path(everything.__file__).resolve())
STRUCTURED = ("2025-06-18", "2025-11-25", "2026-07-28")

EXTENSION_METHODS = {
    *("notes/add", "notes/review", "notes/approve", "notes/hold", "notes/tick", "notes/fail"),
    *("notifications/notes/added", "notifications/notes/touched"),
}

on_handshake = pytest.mark.parametrize("revision", HANDSHAKE)
on_envelope = pytest.mark.parametrize("revision", ENVELOPE)


def on(*revisions: str) -> pytest.MarkDecorator:
    """Only on these revisions."""
    assert set(revisions) <= set(REVISIONS)
    return pytest.mark.parametrize("revision", revisions)


def era(revision: str) -> str:
    return REVISIONS[revision].era


class ClientNotes:
    """The client's side of the notes extension: what it answers and what it heard."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.approving: set[int] = set()
        self.most_at_once = 0
        self.events: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def extension(self) -> Extension:
        return Extension(
            id=everything.NOTES,
            requests={
                "notes/approve": self._approve,
                "notes/hold": self._hold,
                "notes/tick": self._tick,
                "notes/fail": self._fail,
            },
            notifications={"notifications/notes/added": self.heard.append},
            result_types=frozenset({"note"}),
        )

    async def _approve(self, params: dict[str, Any], client: Client) -> dict[str, Any]:
        """Answer once all the questions that were asked together have come."""
        self.approving.add(params["number"])
        self.most_at_once = max(self.most_at_once, len(self.approving))
        if len(self.approving) == 3:
            self.events["all there"].set()
        await self.events["all there"].wait()
        self.approving.discard(params["number"])
        return {"approved": params["number"]}

    async def _hold(self, params: dict[str, Any], client: Client) -> dict[str, Any]:
        self.events["holding"].set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.events["stopped"].set()
            raise
        return {}

    async def _tick(self, params: dict[str, Any], client: Client) -> dict[str, Any]:
        token = params["_meta"]["progressToken"]
        for step in (1, 2):
            client.notify("notifications/progress", {"progressToken": token, "progress": step, "total": 2})
        return {}

    async def _fail(self, params: dict[str, Any], client: Client) -> dict[str, Any]:
        raise RuntimeError("the client is on fire")


class Setting(NamedTuple):
    """One connection, seen from the client."""

    client: Client
    oracle: Oracle
    notes: ClientNotes


def target(transport: Transport, *, revisions: list[str] | None = None, empty: bool = False) -> Any:
    """The server with everything, or an empty one, where this transport reaches it."""
    if transport == "memory":
        return Server("empty", revisions=revisions) if empty else everything.build(revisions=revisions)
    flags = ["--empty"] if empty else []
    return [sys.executable, SCRIPT, *flags, *(["--revisions", *revisions] if revisions else [])]


def new_oracle(**options: Any) -> Oracle:
    return Oracle(extension_methods=EXTENSION_METHODS, result_types={"note"}, **options)


def setting(where: Any, revision: str | None, **options: Any) -> Setting:
    """A client that is not open yet, with an oracle and the notes extension."""
    oracle, notes = new_oracle(), ClientNotes()
    given = {"extensions": [notes.extension()], "experimental": {"com.example/pen": {}}, **options}
    return Setting(Client(where, revision=revision, trace=oracle, **given), oracle, notes)


@contextlib.asynccontextmanager
async def connected(where: Any, revision: str | None, **options: Any) -> AsyncGenerator[Setting]:
    """A connection of its own; at its end every message of it was right."""
    made = setting(where, revision, **options)
    async with made.client:
        yield made
    made.oracle.verdict()


@contextlib.asynccontextmanager
async def facing(
    name: str, transport: Transport, revision: str | None = None, oracle: Oracle | None = None, **options: Any
) -> AsyncGenerator[tuple[Client, Oracle]]:
    """A client of an odd server; only the client is judged, also when it does not even get to open."""
    where = OddServer(name) if transport == "memory" else [sys.executable, odd_servers.__file__, name]
    oracle = oracle or new_oracle(judge={"client"})
    try:
        async with Client(where, revision=revision, trace=oracle, **options) as client:
            yield client, oracle
    finally:
        oracle.verdict()


@contextlib.asynccontextmanager
async def wired(
    where: Any, revision: str | None, *, greet: bool = True
) -> AsyncGenerator[tuple[Wire, Oracle]]:
    """A raw connection, past the handshake where the revision has one; only the server is judged."""
    oracle = new_oracle(judge={"server"})
    channel: Channel
    serving: asyncio.Task[None] | None = None
    if isinstance(where, list):
        channel = ProcessChannel(where)
    else:
        channel, theirs = memory_pair()
        serving = asyncio.create_task(where.serve(theirs))
    wire = Wire(channel, oracle, revision)
    try:
        if greet and revision is not None and era(revision) == "handshake":
            await wire.shake_hands(revision)
        yield wire, oracle
    finally:
        await channel.close()
        if serving is not None:
            await serving
    oracle.verdict()
