"""Holds all that Dovetail sends in the whole test-suite against the official schema of its revision.

Listens at the two doors through which everything goes out: connections, and HTTP endpoints. While a test runs its
messages are only noted; they are judged when it has ended, so nothing that a test measures is changed. A peer in a
test may do anything, so only our own side is judged, and only by the schemas: the laws that no schema can say are
what the oracle of tests/matrix knows.

Python processes that a test starts write down what goes over their connections. Not reached are HTTP servers in
processes of their own, and processes that get an environment without PYTHONPATH.
"""

import functools
import json
import os
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

from dovetail.client.session import ClientSession
from dovetail.protocol.revisions import HANDSHAKE, REVISIONS
from dovetail.runtime.connection import Connection
from dovetail.server.connection import ServerConnection
from dovetail.server.http.asgi_app import AsgiApp
from tests.support.closed_schema import closed_schema, spec_folder
from tests.support.oracle import OTHER, Oracle, SentRequest, Side, _key, _params
from tests.support.shared_uvicorn import Observed

ASIDE = Path(__file__).parent / "aside"
MOST_MESSAGES = 5_000
"""Noted of one connection between two verdicts; a flood says nothing new."""

MOST_BYTES = 20_000_000
MOST_SESSIONS = 2_000
ASSUMED = "2025-03-26"
SESSION, VERSION = b"mcp-session-id", b"mcp-protocol-version"


class Everything:
    """What extensions may bring: all methods that no revision knows, and any type of result."""

    def __init__(self, *but: str) -> None:
        self._but = frozenset(but)

    def __contains__(self, name: object) -> bool:
        return name not in self._but


class Listener(Oracle):
    """Notes the messages of one connection, and judges those of our own side afterwards."""

    def __init__(self, traffic: "Traffic", side: Side, agreed: str | None = None) -> None:
        super().__init__(seen_from=side, judge={side})
        self._traffic = traffic
        self._agreed = agreed
        self._extension_methods = traffic.extension_methods
        self._result_types = Everything()
        self._noted: list[tuple[str, bytes]] = []
        self._bytes = 0
        self.left_out = 0

    def __call__(self, direction: str, line: bytes) -> None:
        if self._traffic.deaf:
            return
        if len(self._noted) >= MOST_MESSAGES or self._bytes > MOST_BYTES:
            self.left_out += 1
            return
        self._noted.append((direction, line))
        self._bytes += len(line)
        self._traffic.heard[self] = None

    def judged(self) -> list[str]:
        """What was wrong with what we sent since the last time."""
        noted, self._noted, self._bytes = self._noted, [], 0
        for direction, line in noted:
            sender: Side = self._here if direction == "sent" else OTHER[self._here]
            try:
                message = json.loads(line)
            except (ValueError, RecursionError) as problem:
                self._complain(sender, line, [f"not JSON: {problem}"])
                continue
            for body in message if isinstance(message, list) else [message]:
                self._take(sender, body)
        return self.problems()

    def _take(self, sender: Side, body: Any, *, batched: bool = False) -> None:
        if sender == self._here:
            super()._take(sender, body, batched=batched)
            self.messages.clear()
        elif isinstance(body, dict):
            self._note(sender, body)

    def _note(self, sender: Side, body: dict[str, Any]) -> None:
        method, params = body.get("method"), _params(body)
        if "id" not in body:
            return
        if isinstance(method, str):
            try:
                revision = self._revision_of_request(sender, method, params)
            except (TypeError, AttributeError):  # the terms of a peer that has no manners
                revision = self._agreed or self._latest
            self._asked[sender, *_key(body["id"])] = SentRequest(sender, body, revision)
        else:
            asked = self._asked.pop((OTHER[sender], *_key(body["id"])), None)
            if asked is not None and asked.method == "initialize" and isinstance(body.get("result"), dict):
                self._agree(body["result"])

    def _judge_request(self, sender: Side, body: dict[str, Any], *, batched: bool) -> Iterator[str]:
        revision = self._revision_of_request(sender, body["method"], _params(body))
        self._asked[sender, *_key(body["id"])] = SentRequest(sender, body, revision)
        yield from self._judge_call(sender, body, revision, "JSONRPCRequest", is_request=True)

    def _judge_notification(self, sender: Side, body: dict[str, Any]) -> Iterator[str]:
        """Where both eras share a connection, nothing may tell which of them a notification belongs to."""
        found: list[str] = []
        for revision in dict.fromkeys(name for name in (self._agreed, self._latest) if name is not None):
            found = list(self._judge_call(sender, body, revision, "JSONRPCNotification", is_request=False))
            if not found:
                return
        yield from found

    def _judge_answer(self, sender: Side, body: dict[str, Any]) -> Iterator[str]:
        asked = self._asked.pop((OTHER[sender], *_key(body.get("id"))), None)
        revision = asked.revision if asked is not None else self._agreed or self._latest
        if asked is not None and asked.method == "initialize" and "result" in body:
            revision = self._agree(body["result"])
        schema = self._schema(revision)
        assert schema is not None
        if "error" not in body:
            yield from self._judge_result(schema, revision, asked, body)
        elif body.get("id") is None:
            # Whether that is null or left out depends on what the peer is taken to speak: see tests/matrix.
            shape = "JSONRPCError" if "JSONRPCError" in schema.definitions else "JSONRPCErrorResponse"
            yield from schema.strict_problems(shape, {**body, "id": 0})
        else:
            yield from self._judge_error(
                schema, revision, asked or SentRequest(OTHER[sender], {"method": ""}, revision), body
            )


class Processes:
    """Other processes, by what they have written into a folder."""

    def __init__(self, traffic: "Traffic", folder: Path) -> None:
        self._traffic = traffic
        self._folder = folder
        self._read: dict[str, int] = {}
        self._listeners: dict[tuple[str, bytes], Listener] = {}

    def listen(self) -> None:
        """Have the processes that are started from now on write."""
        path = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ASIDE), *([path] if path else [])])
        os.environ["PYTHON_DOVETAIL_TRAFFIC"] = str(self._folder)  # clients hand on what begins with PYTHON

    def note(self) -> None:
        """Take what was written since the last time; a line that is not at its end yet is left for later."""
        for entry in os.scandir(self._folder):
            done = self._read.get(entry.name, 0)
            if entry.stat().st_size == done:
                continue
            with open(entry.path, "rb") as file:
                file.seek(done)
                *records, rest = file.read().split(b"\n")
                self._read[entry.name] = file.tell() - len(rest)
            for record in records:
                number, side, direction, line = record.split(b" ", 3)
                self._listener(entry.name, number, "client" if side == b"client" else "server")(
                    direction.decode(), line
                )

    def _listener(self, process: str, number: bytes, side: Side) -> Listener:
        found = self._listeners.get((process, number))
        if found is None:
            found = self._listeners[process, number] = Listener(self._traffic, side)
        return found


class Traffic:
    """All connections of a test process, and of those that it starts."""

    def __init__(self) -> None:
        folder = spec_folder()
        assert folder is not None
        schemas = [closed_schema(folder, revision) for revision in REVISIONS]
        unions = ("ClientRequest", "ServerRequest", "ClientNotification", "ServerNotification")
        self.extension_methods = Everything(*(m for each in schemas for union in unions for m in each.members(union)))
        self.heard: dict[Listener, None] = {}
        self.deaf = False
        """Whether nothing is noted for a while."""
        self._sessions: OrderedDict[bytes, Listener] = OrderedDict()
        self._processes: Processes | None = None

    def listen(self, folder: Path) -> None:
        """Listen at both doors for good, and have processes write into a folder."""
        self._listen_at_connections()
        self._listen_at_endpoints()
        self._processes = Processes(self, folder)
        self._processes.listen()

    def verdict(self) -> list[str]:
        """What was wrong since the last verdict."""
        if self._processes is not None:
            self._processes.note()
        heard, self.heard = self.heard, {}
        return [problem for listener in heard for problem in listener.judged()]

    def _listen_at_connections(self) -> None:
        begin = Connection.__init__

        @functools.wraps(begin)
        def begin_listened_to(
            connection: Connection, sender: Any, service: Any, *, reader: Any = None, trace: Any = None, **others: Any
        ) -> None:
            side = _side(service)
            # What a connection without a reader sends goes through an HTTP application.
            if not self.deaf and side is not None and reader is not None:
                trace = _both(Listener(self, side), trace)
            begin(connection, sender, service, reader=reader, trace=trace, **others)

        Connection.__init__ = begin_listened_to  # pyright: ignore[reportAttributeAccessIssue]

    def _listen_at_endpoints(self) -> None:
        serve = AsgiApp.__call__

        @functools.wraps(serve)
        async def serve_listened_to(endpoint: AsgiApp, scope: Any, receive: Any, send: Any) -> None:
            if self.deaf or scope["type"] != "http" or _is_no_message(scope["path"]):
                await serve(endpoint, scope, receive, send)
                return
            listener = self._listener_of(dict(scope["headers"]))

            async def seen(event: MutableMapping[str, Any]) -> None:
                if event["type"] == "http.response.start":
                    self._remember(dict(event["headers"]).get(SESSION), listener)
                await send(event)

            await Observed(functools.partial(serve, endpoint), listener)(scope, receive, seen)

        AsgiApp.__call__ = serve_listened_to  # pyright: ignore[reportAttributeAccessIssue]

    def _listener_of(self, headers: dict[bytes, bytes]) -> Listener:
        known = self._sessions.get(headers.get(SESSION, b""))
        if known is not None:
            return known
        named = headers.get(VERSION, b"").decode("latin-1")
        return Listener(self, "server", named if named in HANDSHAKE else ASSUMED)

    def _remember(self, session: bytes | None, listener: Listener) -> None:
        if session is not None:
            self._sessions[session] = listener
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)


def _side(service: object) -> Side | None:
    if isinstance(service, ServerConnection):
        return "server"
    return "client" if isinstance(service, ClientSession) else None


def _both(listener: Listener, trace: Any) -> Any:
    if trace is None:
        return listener

    def tell(direction: str, line: bytes) -> None:
        trace(direction, line)
        listener(direction, line)

    return tell


def _is_no_message(path: str) -> bool:
    """Whether what is answered there are other documents, or messages that another door hears of."""
    return path.endswith(("/sse", "/messages", "/health")) or "/.well-known/" in path
