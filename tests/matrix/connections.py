"""What the tests of the matrix stand on: a connection to the server with everything, and an oracle on it."""

import asyncio
import contextlib
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from dovetail import Client, Extension, Server
from dovetail.client import negotiation
from dovetail.protocol.revisions import ENVELOPE, HANDSHAKE, REVISIONS
from dovetail.server import SocketServer, listen_tcp, listen_unix
from dovetail.server.http.asgi_app import AsgiApp
from dovetail.storage import RedisStore
from dovetail.transports.base import Channel
from dovetail.transports.memory import memory_pair
from dovetail.transports.process import ProcessChannel
from tests.matrix import everything, odd_servers
from tests.matrix.odd_servers import SERVERS, OddServer
from tests.support.http import Asgi
from tests.support.oracle import Oracle
from tests.support.raw_channels import raw_channel
from tests.support.raw_peer import RawPeer
from tests.support.raw_servers import RawHttpServer, RawServer, RawSseServer, websocket_server
from tests.support.replica_group import ReplicaGroup, ReplicaHosts, shared_stores
from tests.support.shared_uvicorn import Applications, Observed
from tests.support.waiting import until

Transport = Literal["memory", "stdio", "http", "sse", "websocket", "unix", "tcp"]
SCRIPT = str(Path(everything.__file__).resolve())
STRUCTURED = ("2025-06-18", "2025-11-25", "2026-07-28")


class Way(NamedTuple):
    """What is special about a transport; tests ask here and know no transport by its name."""

    revisions: tuple[str, ...] = tuple(REVISIONS)
    """Those that are tested over it: the sockets frame as stdio does, so one of each era is enough for them.

    Streamable HTTP is younger than 2024-11-05, but negotiating that revision over it is what older clients do:
    how messages travel is one thing and what they say another (2025-11-25 transports, "Custom Transports").
    """
    connection: bool = True
    """Whether all goes over one connection, in order; else each request has its own, and there are sessions."""
    probed: bool = True
    """Whether a client has to find out what the server speaks: over HTTP+SSE that can be the handshake only."""
    restartable: bool = False
    """Whether a server that ended can be started again by connecting to it."""
    path: str = ""
    """Where a server is below its application, for those that are HTTP at first."""


WAYS: dict[Transport, Way] = {
    "memory": Way(),
    "stdio": Way(restartable=True),
    "http": Way(connection=False, path="/mcp"),
    "sse": Way(tuple(HANDSHAKE), probed=False, path="/sse"),
    "websocket": Way(path="/mcp/ws"),
    "unix": Way(("2025-11-25",)),
    "tcp": Way(("2026-07-28",)),
}

EXTENSION_METHODS = {
    *("notes/add", "notes/review", "notes/approve", "notes/hold", "notes/tick", "notes/fail"),
    *("notifications/notes/added", "notifications/notes/touched"),
}

on_a_connection = pytest.mark.parametrize("transport", [name for name, way in WAYS.items() if way.connection])
by_probing = pytest.mark.parametrize("transport", [name for name, way in WAYS.items() if way.probed])
on_handshake = pytest.mark.parametrize("revision", HANDSHAKE)
on_envelope = pytest.mark.parametrize("revision", ENVELOPE)


def on(*revisions: str) -> pytest.MarkDecorator:
    """Only on these revisions."""
    assert set(revisions) <= set(REVISIONS)
    return pytest.mark.parametrize("revision", revisions)


def era(revision: str) -> str:
    return REVISIONS[revision].era


def stands_alone(transport: Transport, revision: str) -> bool:
    """Whether every request is a world of its own, with ids of its own."""
    return not WAYS[transport].connection and era(revision) == "envelope"


def tells_of_cancelling(transport: Transport, revision: str) -> bool:
    """Whether giving up a request is a message: where its stream is its own, closing that may say it all."""
    return WAYS[transport].connection or REVISIONS[revision].disconnect == "detach"


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


class Setting:
    """One connection, seen from the client, and from the server where that sees something else.

    Over HTTP a client may have said something that never was a message on the wire, as to cancel a request.
    """

    def __init__(self, client: Client, oracle: Oracle, notes: ClientNotes, address: "Address") -> None:
        self.client = client
        self.oracle = oracle
        self.notes = notes
        self.edge = address.edge
        self._door = address.door
        self._lasting = int(address.lasting)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.client, self.oracle, self.notes))

    @property
    def wire(self) -> Oracle:
        """What really went over the wire."""
        return self.edge or self.oracle

    async def let_go(self) -> None:
        """Wait until a server of the envelope era has noticed that its client closed the stream of a request."""
        door = self._door
        if door is not None:
            await until(lambda: door.busy == self._lasting)

    def verdict(self) -> None:
        """Fail if anything was wrong since the last verdict, on either side."""
        self.oracle.verdict()
        if self.edge is not None:
            self.edge.verdict()

    def forgive(self, wrong: str) -> None:
        """Forget the problems that a test made on purpose, and only those."""
        self.oracle.forgive(wrong)
        if self.edge is not None:
            self.edge.forgive(wrong)


class Place(NamedTuple):
    """A server, and the transport by which it is to be reached."""

    transport: Transport
    build: Callable[[ReplicaGroup], Server]
    """Makes a server that is one of a group of replicas, or alone in it."""
    command: tuple[str, ...]
    """What serves the same over stdio."""


class Doors(NamedTuple):
    """The doors of all replicas of a server."""

    all: list[Observed]

    @property
    def busy(self) -> int:
        """Requests that are being answered, and WebSockets that are open."""
        return sum(door.busy for door in self.all)


class Address(NamedTuple):
    """Where a client connects to, and the oracle that listens at the server's door."""

    where: Any
    edge: Oracle | None = None
    door: Doors | None = None
    lasting: bool = False
    """Whether a connection is there as long as its client."""


class Ground:
    """What all servers of a test run stand on: one uvicorn, or one for each replica, and nginx before them."""

    applications: Applications
    replicas: ReplicaHosts | None = None

    @classmethod
    def mounted(cls, apps: Sequence[Asgi]) -> contextlib.AbstractContextManager[str]:
        """Serve an application, or its replicas, for a while; yields the address, without the scheme."""
        if cls.replicas is not None:
            return cls.replicas.mounted(apps)
        (app,) = apps
        return cls.applications.mounted(app)

    @classmethod
    @contextlib.asynccontextmanager
    async def stores(cls) -> AsyncGenerator[Sequence[RedisStore | None]]:
        """The store of each application of one server: only replicas have one."""
        if cls.replicas is None:
            yield [None]
        else:
            async with shared_stores() as stores:
                yield stores


def target(transport: Transport, *, revisions: list[str] | None = None, empty: bool = False) -> Place:
    """The server with everything, or an empty one, for this transport."""
    flags = ["--empty"] if empty else []
    command = [sys.executable, SCRIPT, *flags, *(["--revisions", *revisions] if revisions else [])]

    def build(group: ReplicaGroup) -> Server:
        return Server("empty", revisions=revisions) if empty else everything.build(group, revisions=revisions)

    return Place(transport, build, tuple(command))


@contextlib.asynccontextmanager
async def reached(place: Any) -> AsyncGenerator[Address]:
    """Have a server be there for a while; what is no place is an address already."""
    if not isinstance(place, Place):
        yield Address(place)
    elif place.transport == "stdio":
        yield Address(list(place.command))
    elif place.transport == "memory":
        yield Address(place.build(ReplicaGroup()))
    elif place.transport in ("unix", "tcp"):
        async with listening(place.transport, place.build(ReplicaGroup())) as where:
            yield Address(where)
    else:
        async with web(place) as address:
            yield address


@contextlib.asynccontextmanager
async def web(place: Place) -> AsyncGenerator[Address]:
    """A server behind a URL, all of whose messages reach an oracle as they pass its door."""
    transport, group = place.transport, ReplicaGroup()
    async with contextlib.AsyncExitStack() as stack:
        apps: list[AsgiApp] = []
        for store in await stack.enter_async_context(Ground.stores()):
            apps.append(place.build(group).asgi(store=store))
            stack.push_async_callback(apps[-1].close, 0)
        edge = new_oracle(seen_from="server")
        doors = Doors([Observed(app, edge) for app in apps])
        where = stack.enter_context(Ground.mounted(doors.all))
        url = ("ws:" if transport == "websocket" else "http:") + where + WAYS[transport].path
        if transport == "sse":
            # How the client finds that out by itself is what tests/matrix/test_http.py tells.
            negotiation.SHARED_ERAS.remember(("url", url), "sse")
        stack.callback(negotiation.SHARED_ERAS.forget, ("url", url))
        yield Address(url, edge, doors, WAYS[transport].connection)


@contextlib.asynccontextmanager
async def listening(transport: Transport, server: Server) -> AsyncGenerator[str]:
    """A server at a socket."""
    ready: asyncio.Future[SocketServer] = asyncio.get_running_loop().create_future()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "socket"))
        listen = (
            listen_unix(server, path, started=ready.set_result)
            if transport == "unix"
            else listen_tcp(server, started=ready.set_result)
        )
        task = asyncio.create_task(listen)
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        try:
            [where] = (await ready).addresses
            yield f"unix:{path}" if transport == "unix" else f"tcp://{where}"
        finally:
            task.cancel()
            await asyncio.wait({task})


def new_oracle(**options: Any) -> Oracle:
    return Oracle(extension_methods=EXTENSION_METHODS, result_types={"note"}, **options)


def setting(address: Address, revision: str | None, **options: Any) -> Setting:
    """A client that is not open yet, with an oracle and the notes extension."""
    oracle, notes = new_oracle(), ClientNotes()
    given = {"extensions": [notes.extension()], "experimental": {"com.example/pen": {}}, **options}
    client = Client(address.where, revision=revision, trace=oracle, **given)
    return Setting(client, oracle, notes, address)


@contextlib.asynccontextmanager
async def connected(place: Any, revision: str | None, **options: Any) -> AsyncGenerator[Setting]:
    """A connection of its own; at its end every message of it was right."""
    async with reached(place) as address:
        made = setting(address, revision, **options)
        async with made.client:
            yield made
        made.verdict()


@contextlib.asynccontextmanager
async def odd_server(name: str, transport: Transport) -> AsyncGenerator[Any]:
    """An odd server, and where a client connects to it."""
    answer = SERVERS[name]
    if transport == "memory":
        yield OddServer(name)
    elif transport == "stdio":
        yield [sys.executable, odd_servers.__file__, name]
    elif transport == "unix":
        with tempfile.TemporaryDirectory() as folder:
            async with RawServer(answer).listening(Path(folder, "socket")) as where:
                yield f"unix:{where}"
    elif transport == "tcp":
        async with RawServer(answer).listening() as where:
            yield f"tcp://{where}"
    elif transport == "websocket":
        async with websocket_server(answer) as where:
            yield f"ws://{where}"
    elif transport == "sse":
        async with RawSseServer(answer).listening() as where:
            url = f"http://{where}/sse"
            negotiation.SHARED_ERAS.remember(("url", url), "sse")
            yield url
    else:
        async with RawHttpServer(answer).listening() as where:
            yield f"http://{where}/mcp"


@contextlib.asynccontextmanager
async def facing(
    name: str, transport: Transport, revision: str | None = None, oracle: Oracle | None = None, **options: Any
) -> AsyncGenerator[tuple[Client, Oracle]]:
    """A client of an odd server; only the client is judged, also when it does not even get to open."""
    oracle = oracle or new_oracle(judge={"client"})
    try:
        async with (
            odd_server(name, transport) as where,
            Client(where, revision=revision, trace=oracle, **options) as client,
        ):
            yield client, oracle
    finally:
        oracle.verdict()


@contextlib.asynccontextmanager
async def wired(place: Any, revision: str | None, *, greet: bool = True) -> AsyncGenerator[tuple[RawPeer, Oracle]]:
    """A raw connection, past the handshake where the revision has one; only the server is judged."""
    oracle = new_oracle(judge={"server"})
    async with reached(place) as (where, *_):
        channel: Channel
        serving: asyncio.Task[None] | None = None
        if isinstance(where, list):
            channel = ProcessChannel(where)
        elif isinstance(where, str):
            channel = raw_channel(where, revision)
        else:
            channel, theirs = memory_pair()
            serving = asyncio.create_task(where.serve(theirs))
        wire = RawPeer(channel, oracle, revision)
        try:
            if greet and revision is not None and era(revision) == "handshake":
                await wire.shake_hands(revision)
            yield wire, oracle
        finally:
            await channel.close()
            if serving is not None:
                await serving
        oracle.verdict()
