"""A raw HTTP/1.1 load generator: keep-alive sockets and JSON by hand, the same for all servers, each answer checked."""

import contextlib
import itertools
import json
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httptools

from bench.driver import ENVELOPE, HANDSHAKE, PATIENCE_MS
from bench.processes import DriverError, Watched

CHUNK = 1 << 18
FIRST_ID = 1_000_000
"""All ids have seven digits, so that the length of a request does not change."""

_ids = itertools.count(FIRST_ID)

Check = Callable[[dict[str, Any], list[bytes]], None]
"""Looks at a result and at the messages before it; raises DriverError."""


class HttpServer(Watched):
    """A server process that listens on loopback and writes its port as its first line."""

    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__(argv)
        assert self.process.stdout
        poll = select.poll()
        poll.register(self.process.stdout, select.POLLIN)
        line = self.process.stdout.readline() if poll.poll(PATIENCE_MS) else b""
        if not line.strip().isdigit():
            complaint = self.complaint()
            self.close()
            raise DriverError(f"the server did not start. {complaint}")
        self.port = int(line)
        self._wait_until_it_listens()

    def _wait_until_it_listens(self) -> None:
        """Some servers choose their port, and write it, before they listen there."""
        until = time.perf_counter() + PATIENCE_MS / 1000
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError as error:
                if time.perf_counter() > until or self.process.poll() is not None:
                    complaint = self.complaint()
                    self.close()
                    raise DriverError(f"the server does not listen. {complaint}") from error
                time.sleep(0.01)

    def close(self) -> None:
        """End the server at once; how it ends is not measured."""
        self.process.kill()
        self.ended()


class Connection:
    """One connection of a client, and on a revision with sessions a session of its own."""

    def __init__(self, port: int, revision: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(PATIENCE_MS / 1000)
        self.port = port
        self.revision = revision
        self.session = b""
        self.parser = httptools.HttpResponseParser(self)
        self.body: list[bytes] = []
        self.content_type = b""
        self.complete = False
        self.id = b""
        self.before = self.after = b""
        self.capabilities: dict[str, Any] = {}

    def open(self) -> None:
        """Open a session where the revision has them."""
        if self.revision != HANDSHAKE:
            return
        info = {"name": "bench", "version": "1"}
        self.aim("initialize", {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": info})
        self.exchange(200)
        result_of(self)
        if not self.session:
            raise DriverError("the server opened no session")
        message = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        self.exchange(202, self._head("notifications/initialized", None, len(message)) + message)

    def aim(self, method: str, params: dict[str, Any], **meta: object) -> None:
        """Set the request that `fire` sends."""
        if self.revision == ENVELOPE:
            meta |= {
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            }
        if meta:
            params = {**params, "_meta": meta}
        tail = json.dumps({"method": method, "params": params}, separators=(",", ":")).encode()
        before, self.after = b'{"jsonrpc":"2.0","id":', b"," + tail[1:]
        length = len(before) + len(str(FIRST_ID)) + len(self.after)
        self.before = self._head(method, params.get("name"), length) + before

    def _head(self, method: str, name: str | None, length: int) -> bytes:
        lines = [
            "POST /mcp HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            "User-Agent: bench",
            "Accept: application/json, text/event-stream",
            "Content-Type: application/json",
            f"Content-Length: {length}",
        ]
        if method != "initialize":
            lines.append(f"MCP-Protocol-Version: {self.revision}")
        if self.session:
            lines.append(f"Mcp-Session-Id: {self.session.decode()}")
        if self.revision == ENVELOPE:
            lines += [f"Mcp-Method: {method}", *([f"Mcp-Name: {name}"] if name else [])]
        return "\r\n".join([*lines, "", ""]).encode()

    def fire(self) -> None:
        """Send the request that was set, under the next id."""
        self.id = b"%d" % next(_ids)
        self._send(self.before + self.id + self.after)

    def _send(self, request: bytes) -> None:
        self.body.clear()
        self.complete = False
        self.socket.sendall(request)

    def read(self) -> bool:
        """Take in what has come; True when the answer is whole."""
        data = self.socket.recv(CHUNK)
        if not data:
            raise DriverError("the server closed the connection")
        self.parser.feed_data(data)
        return self.complete

    def exchange(self, status: int, request: bytes | None = None) -> None:
        """Send one request, the one that was set if none is given, and read its answer."""
        if request is None:
            self.fire()
        else:
            self._send(request)
        while not self.read():
            pass
        if self.status() != status:
            raise DriverError(f"status {self.status()} instead of {status}: {self.data()[:500]!r}")

    def status(self) -> int:
        return self.parser.get_status_code()

    def data(self) -> bytes:
        return b"".join(self.body)

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-type":
            self.content_type = value
        elif name == b"mcp-session-id":
            self.session = value

    def on_body(self, data: bytes) -> None:
        self.body.append(data)

    def on_message_complete(self) -> None:
        self.complete = True


def messages_of(connection: Connection) -> list[bytes]:
    """The JSON-RPC messages in an answer, whether it is JSON or a stream of events."""
    data = connection.data()
    if connection.content_type.startswith(b"application/json"):
        return [data]
    if not connection.content_type.startswith(b"text/event-stream"):
        raise DriverError(f"content type {connection.content_type!r}: {data[:300]!r}")
    events = data.replace(b"\r\n", b"\n").split(b"\n\n")
    found = (b"".join(line[5:] for line in event.split(b"\n") if line.startswith(b"data:")) for event in events)
    # The priming event of a resumable stream carries no message.
    return [message for message in found if message.strip()]


def result_of(connection: Connection) -> dict[str, Any]:
    """The result in an answer; an error, an isError result or a foreign id ends the measure."""
    if connection.status() != 200:
        raise DriverError(f"status {connection.status()}: {connection.data()[:500]!r}")
    message = json.loads(messages_of(connection)[-1])
    result = message.get("result")
    if not result or result.get("isError") or message["id"] != int(connection.id):
        raise DriverError(f"unexpected answer: {connection.data()[:500]!r}")
    return result


class Load:
    """Several connections that are kept busy with one request, each with one call at a time."""

    def __init__(self, connections: Sequence[Connection], check: Check) -> None:
        self.connections = {connection.socket.fileno(): connection for connection in connections}
        self.check = check
        self.poll = select.epoll()
        for fd in self.connections:
            self.poll.register(fd, select.EPOLLIN)
        self.right: set[bytes] = set()

    def run(self, seconds: float) -> tuple[int, float]:
        """Keep all connections busy for a while; the calls answered, and the seconds until the last answer."""
        done, waiting = 0, len(self.connections)
        begun = time.perf_counter()
        until = begun + seconds
        for connection in self.connections.values():
            connection.fire()
        while waiting:
            ready = self.poll.poll(PATIENCE_MS / 1000)
            if not ready:
                raise DriverError(f"{waiting} calls had no answer for {PATIENCE_MS // 1000} s")
            for fd, _ in ready:
                connection = self.connections[fd]
                if connection.read():
                    self._answered(connection)
                    done += 1
                    if time.perf_counter() < until:
                        connection.fire()
                    else:
                        waiting -= 1
        return done, time.perf_counter() - begun

    def _answered(self, connection: Connection) -> None:
        """Check an answer; one that differs from a right answer in its id alone is right without being parsed."""
        if connection.status() != 200:
            raise DriverError(f"status {connection.status()}: {connection.data()[:500]!r}")
        messages = messages_of(connection)
        shape = b"\n".join(messages).replace(connection.id, b"#", 1)
        if shape in self.right:
            return
        self.check(result_of(connection), messages[:-1])
        if len(self.right) < 16:
            self.right.add(shape)


@contextlib.contextmanager
def connected(server: HttpServer, revision: str, number: int) -> Iterator[list[Connection]]:
    """A number of open connections to a server."""
    with contextlib.ExitStack() as stack:
        connections = [Connection(server.port, revision) for _ in range(number)]
        for connection in connections:
            stack.callback(connection.socket.close)
            connection.open()
        yield connections
