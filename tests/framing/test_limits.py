"""Attacks on one connection: trailers without end, connections without a timer, peers that do not read."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dovetail.server.run.websocket_protocol import BoundedWebSocket
from tests.framing.cases import CHUNKED, H2C, body_of, call, chunks, get, head
from tests.framing.raw_connection import RawConnection
from tests.framing.servers import PARSERS, serving
from tests.support.http_process import HttpProcess
from tests.support.raw import PATIENCE, eventually

MEGABYTE = 1_000_000
SHORT_TIMERS = """
import dovetail.server.run.connection_limits as limits
import dovetail.server.run.coalescing_transport as transport
import dovetail.server.run.uvicorn_server as server_module
import dovetail.server.run.write_watch as watch

limits.HEAD_SECONDS = 1.0
transport.LINGER_SECONDS = 1.0
server_module.KEEP_ALIVE_SECONDS = 1
watch.WRITE_SECONDS = 1.0
watch.MAX_UNSENT_BYTES = {unsent}
"""
AUTHENTICATED = 'Server = __import__("functools").partial(Server, auth={"ann-token": "ann"}.get)\n'


def resident(server: HttpProcess) -> int:
    """The bytes of memory that the server's process holds."""
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def send_until_closed(connection: RawConnection, data: bytes, limit: int) -> int:
    """Send the data again and again; returns how many bytes the peer took before it closed."""
    taken = 0
    try:
        while taken < limit:
            connection.sock.sendall(data)
            taken += len(data)
    except (BrokenPipeError, ConnectionResetError, TimeoutError):
        pass
    return taken


@pytest.mark.attack("H1")
@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("trailers", [b"x: y\r\n" * 10_000, b"y" * 60_000], ids=["many", "one that never ends"])
def test_trailers_are_bounded(parser: str, trailers: bytes) -> None:
    with serving(parser, before=SHORT_TIMERS.format(unsent=10**9)) as server:
        before = resident(server)
        with RawConnection(server.host, server.port) as connection:
            connection.send(CHUNKED + chunks("a")[:-2] + b"z: ")
            send_until_closed(connection, trailers, 100 * MEGABYTE)
        assert resident(server) - before < 20 * MEGABYTE


@pytest.mark.attack("H1", "M1")
def test_trailers_of_a_refused_request_are_not_kept() -> None:
    with serving(before=SHORT_TIMERS.format(unsent=10**9)) as server:
        before = resident(server)
        with RawConnection(server.host, server.port) as connection:
            connection.send(head("transfer-encoding: chunked", path="/nothing") + b"2\r\n{}\r\n0\r\n")
            response = connection.response()
            assert response is not None and (response.status, response.headers["connection"]) == (404, "close")
            assert send_until_closed(connection, b"x: y\r\n" * 10_000, 10**12) < 10**12
        assert resident(server) - before < 20 * MEGABYTE


@pytest.mark.attack("M3")
@pytest.mark.parametrize("parser", PARSERS)
def test_a_token_in_a_trailer_lets_nobody_in(parser: str) -> None:
    before = "import dovetail\n" + AUTHENTICATED.replace("(Server,", "(dovetail.Server,").replace(
        "Server =", "dovetail.Server ="
    )
    with serving(parser, before=before) as server:
        for _ in range(20):
            with RawConnection(server.host, server.port) as connection:
                connection.send(CHUNKED + chunks("a", trailers=b"authorization: Bearer ann-token\r\n"))
                response = connection.response()
                assert response is not None and response.status == 401
        with RawConnection(server.host, server.port) as connection:
            connection.send(call("a", "authorization: Bearer ann-token"))
            response = connection.response()
            assert response is not None and response.text == "200 a"


DRIPPED = {
    "nothing": (b"", b""),
    "a head": (b"GET / HTTP/1.1\r\nx: ", b"y"),
    "empty lines": (b"", b"\r\n"),
    "empty lines after a request": (call("a"), b"\r\n"),
    "a head after a request": (call("a"), b"G"),
    "the body of a request that is too large": (head("content-length: 5000000"), b"x"),
    "the body of a request to nowhere": (head("content-length: 5000", path="/nothing"), b"x"),
    "the body of a request with a wrong type": (
        get("content-type: text/plain", "content-length: 500", method="POST", path="/mcp"),
        b"x",
    ),
    "the body of an expected request that was refused": (head("content-length: 5000000", "expect: 100-continue"), b"x"),
    "what follows an offer of HTTP/2": (call("a", *H2C), b"\r"),
    "trailers of a refused request": (head("transfer-encoding: chunked", path="/nothing") + b"0\r\n", b"x"),
}


@pytest.mark.attack("M1")
@pytest.mark.parametrize("parser", PARSERS)
def test_every_connection_has_a_time_limit(parser: str) -> None:
    """Each begins in its way and then sends one byte every 0.2 seconds; timers are set to a second."""
    with serving(parser, before=SHORT_TIMERS.format(unsent=10**9), body_seconds=1) as server:
        waiting = {title: RawConnection(server.host, server.port) for title in DRIPPED}
        for title, connection in waiting.items():
            connection.send(DRIPPED[title][0])
            connection.sock.setblocking(False)
        end = time.monotonic() + PATIENCE
        while waiting and time.monotonic() < end:
            time.sleep(0.2)
            for title, connection in list(waiting.items()):
                if is_over(connection, DRIPPED[title][1]):
                    waiting.pop(title).__exit__()
        left = list(waiting)
        for connection in waiting.values():
            connection.__exit__()
        assert not left


def is_over(connection: RawConnection, drip: bytes) -> bool:
    """Send one more byte and read what there is; True if the server has closed the connection."""
    try:
        while True:
            if connection.sock.recv(65_536) == b"":
                return True
    except BlockingIOError:
        pass
    except ConnectionResetError:
        return True
    try:
        connection.sock.send(drip)
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def ask_for_much(server: HttpProcess, size: int) -> RawConnection:
    """A connection on which a long answer is due that nobody reads."""
    connection = RawConnection(server.host, server.port, receive_buffer=4096)
    body = body_of("x").replace(
        b'"name": "echo", "arguments": {"text": "x"}', b'"name": "fill", "arguments": {"size": %d}' % size
    )
    lines = (
        f"content-length: {len(body)}",
        "mcp-protocol-version: 2026-07-28",
        "mcp-method: tools/call",
        "mcp-name: fill",
    )
    connection.send(head(*lines, mcp=False) + body)
    return connection


def open_sockets(server: HttpProcess) -> int:
    """The number of sockets that the server's process has open."""
    found = 0
    for descriptor in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(descriptor).startswith("socket:")
    return found


@pytest.mark.attack("M7")
@pytest.mark.parametrize("parser", PARSERS)
def test_a_peer_that_does_not_read_is_dropped(parser: str) -> None:
    with serving(parser, before=SHORT_TIMERS.format(unsent=10**9)) as server:
        before = open_sockets(server)
        with ask_for_much(server, 4 * MEGABYTE):
            eventually(lambda: open_sockets(server) == before + 1, "the request has arrived")
            eventually(lambda: open_sockets(server) == before, "the connection is dropped")


@pytest.mark.attack("M7")
@pytest.mark.parametrize("parser", PARSERS)
def test_unread_responses_are_bounded_over_all_connections(parser: str) -> None:
    """60 answers of 4 MB are not read, 20 MB may wait here (the kernel holds some too), and others are served."""
    timers = SHORT_TIMERS.format(unsent=20 * MEGABYTE).replace("WRITE_SECONDS = 1.0", "WRITE_SECONDS = 600.0")
    with serving(parser, before=timers) as server:
        memory, sockets = resident(server), open_sockets(server)
        stalled = [ask_for_much(server, 4 * MEGABYTE) for _ in range(60)]
        try:
            for one in stalled:
                assert one.sock.recv(1, socket.MSG_PEEK), "each answer is begun"
            eventually(lambda: 0 < open_sockets(server) - sockets <= 30, "half are dropped")
            with RawConnection(server.host, server.port) as honest:
                honest.send(call("a"))
                response = honest.response()
                assert response is not None and response.text == "200 a"
            assert resident(server) - memory < 120 * MEGABYTE
            assert "do not read" in server.stderr
        finally:
            for one in stalled:
                one.__exit__()


def websocket(server: HttpProcess) -> RawConnection:
    connection = RawConnection(server.host, server.port, receive_buffer=4096)
    lines = ["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"]
    connection.send(
        get(*lines, "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-protocol: mcp", path="/mcp/ws")
    )
    response = connection.response()
    assert response is not None and response.status == 101
    return connection


def frame(opcode: int, payload: bytes, *, final: bool = True) -> bytes:
    """A masked frame; the mask is zero."""
    first = opcode | (0x80 if final else 0)
    size = (
        struct.pack("!BB", first, 0x80 | len(payload))
        if len(payload) < 126
        else struct.pack("!BBH", first, 0xFE, len(payload))
    )
    return size + bytes(4) + payload


@pytest.mark.attack("M7")
def test_pongs_that_are_not_read_are_bounded() -> None:
    with serving(
        before=SHORT_TIMERS.format(unsent=10**9).replace("WRITE_SECONDS = 1.0", "WRITE_SECONDS = 600.0")
    ) as server:
        before = resident(server)
        with websocket(server) as connection:
            connection.sock.settimeout(1.0)
            taken = send_until_closed(connection, frame(9, b"p" * 125) * 1000, 200 * MEGABYTE)
        assert taken < 100 * MEGABYTE
        assert resident(server) - before < 50 * MEGABYTE


@pytest.mark.attack("M7")
def test_empty_fragments_take_no_memory() -> None:
    protocol = BoundedWebSocket.__new__(BoundedWebSocket)
    protocol.frames = [b"some"]
    for _ in range(1000):
        protocol.handle_cont(SimpleNamespace(data=b"", fin=False))
    protocol.handle_cont(SimpleNamespace(data=b" text", fin=False))
    assert protocol.frames == [b"some text"]


def test_a_message_in_many_fragments_is_one_message() -> None:
    with serving() as server, websocket(server) as connection:
        body = body_of("a")
        connection.send(frame(1, body[:50], final=False) + frame(0, b"", final=False) * 10_000)
        connection.send(
            b"".join(frame(0, body[place : place + 1], final=False) for place in range(50, len(body))) + frame(0, b"")
        )
        assert b'"a"' in connection.sock.recv(65_536)


@pytest.mark.attack("L18")
def test_a_server_out_of_file_descriptors_says_so() -> None:
    few = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
    with serving(before=few) as server, contextlib.ExitStack() as opened:
        with contextlib.ExitStack() as many:
            for _ in range(80):
                many.enter_context(RawConnection(server.host, server.port))
            eventually(lambda: "Out of file descriptors (this process may have 64)" in server.stderr, "it is logged")
        eventually(lambda: open_sockets(server) < 20, "the connections are gone")
        connection = opened.enter_context(RawConnection(server.host, server.port))
        connection.send(call("a"))
        response = connection.response()
        assert response is not None and response.text == "200 a"
