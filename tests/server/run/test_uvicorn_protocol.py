"""Short answers are written with one call, whatever else goes on at the connection."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.http_process import HttpProcess
from tests.support.raw import ENVELOPE_META, PATIENCE

SERVER = """
from dovetail import Server

server = Server("echoing")


@server.tool
async def echo(text: str) -> str:
    return text
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpProcess]:
    file: Path = tmp_path_factory.mktemp("corked") / "echoing.py"
    file.write_text(SERVER)
    with HttpProcess(file) as running:
        yield running


@pytest.fixture
def connection(server: HttpProcess) -> Iterator[socket.socket]:
    with socket.create_connection((server.host, server.port), PATIENCE) as opened:
        yield opened


def call(id: int, text: str, *headers: str) -> bytes:
    params = {"name": "echo", "arguments": {"text": text}, "_meta": ENVELOPE_META}
    body = json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode()
    head = [
        "POST /mcp HTTP/1.1",
        "host: 127.0.0.1",
        "content-type: application/json",
        "accept: application/json, text/event-stream",
        "mcp-protocol-version: 2026-07-28",
        "mcp-method: tools/call",
        "mcp-name: echo",
        f"content-length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def answer(stream: socket.SocketIO) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the next answer."""
    status = int(stream.readline().split()[1])
    headers: dict[str, str] = {}
    while (line := stream.readline().decode().strip()) != "":
        name, _, value = line.partition(": ")
        assert name not in headers, "no header comes twice"
        headers[name] = value
    body, size = b"", int(headers.get("content-length", "0"))
    while len(body) < size:
        body += stream.read(size - len(body)) or b""
    return status, headers, body


def echoed(body: bytes) -> tuple[int, str]:
    message = json.loads(body)
    return message["id"], message["result"]["structuredContent"]


def test_head_and_body_are_sent_together(connection: socket.socket) -> None:
    connection.sendall(call(1, "hello"))
    chunk = connection.recv(65536)
    head, _, body = chunk.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n") and b"\r\ncontent-type: application/json" in head
    assert b"date: " in head
    assert echoed(body) == (1, "hello")


@pytest.mark.parametrize("more", [[], ["connection: close"], ["mcp-protocol-version: nonsense"]])
def test_no_cache_may_store_a_message(connection: socket.socket, more: list[str]) -> None:
    connection.sendall(call(1, "hello", *more))
    with connection.makefile("rb", buffering=0) as stream:
        _, headers, _ = answer(stream)
    assert (headers["cache-control"], headers["content-type"]) == ("no-store", "application/json")


def test_pipelined_requests_are_answered_in_order(connection: socket.socket) -> None:
    connection.sendall(b"".join(call(number, f"text {number}") for number in range(20)))
    with connection.makefile("rb", buffering=0) as stream:
        told = [answer(stream) for _ in range(20)]
    assert [echoed(body) for _, _, body in told] == [(number, f"text {number}") for number in range(20)]


def test_connection_close_closes_the_connection_after_the_response(connection: socket.socket) -> None:
    connection.sendall(call(1, "last", "connection: close"))
    with connection.makefile("rb", buffering=0) as stream:
        status, headers, body = answer(stream)
        assert (status, headers["connection"]) == (200, "close")
        assert echoed(body) == (1, "last")
        assert stream.read() == b""


def test_expect_100_continue_is_answered(connection: socket.socket) -> None:
    request = call(1, "asked", "expect: 100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    connection.sendall(head + b"\r\n\r\n")
    with connection.makefile("rb", buffering=0) as stream:
        assert stream.readline().startswith(b"HTTP/1.1 100")
        assert stream.readline() == b"\r\n"
        connection.sendall(body)
        assert echoed(answer(stream)[2]) == (1, "asked")


def test_short_responses_follow_long_ones(connection: socket.socket) -> None:
    long = "x" * 2_000_000
    with connection.makefile("rb", buffering=0) as stream:
        for number, text in enumerate(["short", long, "short"]):
            connection.sendall(call(number, text))
            assert echoed(answer(stream)[2]) == (number, text)


def test_a_head_request_gets_no_body(connection: socket.socket) -> None:
    connection.sendall(b"HEAD /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" + call(2, "next"))
    with connection.makefile("rb", buffering=0) as stream:
        assert stream.readline().startswith(b"HTTP/1.1 200")
        while stream.readline() != b"\r\n":
            pass
        assert echoed(answer(stream)[2]) == (2, "next")
