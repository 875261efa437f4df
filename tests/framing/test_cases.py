"""Framing over raw sockets, with both parsers, on the newest and on the lowest uvicorn that is allowed."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator

import pytest

from tests.framing.cases import CASES, CLOSED, HEALTH, UPGRADED, Case, call, chunks, get, head
from tests.framing.raw_connection import RawConnection
from tests.framing.servers import PARSERS, serving
from tests.support.http_process import HttpProcess


@pytest.fixture(scope="module", params=["newest", "lowest"])
def uvicorn(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module", params=list(PARSERS))
def parser(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def server(parser: str, uvicorn: str) -> Iterator[HttpProcess]:
    with serving(parser, uvicorn) as process:
        yield process


def exchange(connection: RawConnection, case: Case, count: int) -> list[str]:
    """Send what the case says, and read that many responses."""
    responses: list[str] = []

    def read() -> None:
        response = connection.response(to_head=case.to_head and not responses)
        assert response is not None, f"the connection was closed after {responses}"
        responses.append(response.text)

    for number, part in enumerate(case.sent):
        if number:
            if number == len(case.sent) - 1:
                while len(responses) < case.early:
                    read()
            time.sleep(0.01)  # so that the parts are parts; the responses do not depend on it
        connection.send(part)
    while len(responses) < count:
        read()
    return responses


def state(connection: RawConnection) -> str:
    """Open, if another request is answered."""
    connection.send(HEALTH)
    response = connection.response()
    if response is None:
        return CLOSED
    assert response.status == 200 and b'"status"' in response.body, response
    return "open"


@pytest.mark.attack("H4", "M3", "L7", "L8")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_request_gets_its_responses(server: HttpProcess, parser: str, case: Case) -> None:
    expected, after = case.responses, case.after
    if parser == "h11":
        expected, after = case.h11 or expected, case.h11_after or after
    with RawConnection(server.host, server.port) as connection:
        assert exchange(connection, case, len(expected)) == list(expected)
        if after != UPGRADED:
            assert state(connection) == after


def test_an_event_stream_for_http_1_0_has_no_chunks(server: HttpProcess) -> None:
    with RawConnection(server.host, server.port) as connection:
        connection.send(get("accept: text/event-stream", path="/sse", version="1.0"))
        received = b""
        while b"\n\n" not in received.partition(b"\r\n\r\n")[2]:
            data = connection.sock.recv(65_536)
            assert data, received
            received += data
        head, _, body = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n") and b"transfer-encoding" not in head.lower()
        assert body.startswith(b"event: endpoint\n")


HALF_CLOSED: dict[str, tuple[bytes, set[tuple[str, ...]]]] = {
    "nothing": (b"", {()}),
    "half of a head": (call("a")[:60], {(), ("400",)}),
    "half of a body": (call("a")[:-10], {(), ("400",)}),
    "a whole request": (call("a"), {(), ("200 a",)}),  # the end counts as a client that has gone, which may come first
    "two requests": (call("a") + call("b"), {(), ("200 a",), ("200 a", "200 b")}),
}
"""What is sent before a client closes its sending side, and the responses that may come."""


def check_half_closed(host: str, port: int, sent: str) -> None:
    """Close the sending side after this, and compare the responses."""
    data, allowed = HALF_CLOSED[sent]
    with RawConnection(host, port) as connection:
        connection.send(data)
        connection.sock.shutdown(socket.SHUT_WR)
        responses: list[str] = []
        while (response := connection.response()) is not None:
            responses.append(response.text)
        assert tuple(responses) in allowed
    with RawConnection(host, port) as connection:
        assert state(connection) == "open"


@pytest.mark.parametrize("sent", HALF_CLOSED)
def test_a_client_that_closes_its_sending_side_is_never_answered_wrongly(server: HttpProcess, sent: str) -> None:
    check_half_closed(server.host, server.port, sent)


def test_a_client_that_closes_its_sending_side_after_the_response_is_disconnected(server: HttpProcess) -> None:
    with RawConnection(server.host, server.port) as connection:
        connection.send(call("a"))
        response = connection.response()
        assert response is not None and response.text == "200 a"
        connection.sock.shutdown(socket.SHUT_WR)
        assert connection.is_closed()


REQUEST = head("transfer-encoding: chunked", "connection: upgrade", "upgrade: h2c") + chunks("a", 60, b"x-sum: 1\r\n")


def splits(seed: int) -> list[list[bytes]]:
    """The request cut at every place, and at random into up to ten parts."""
    found = [[REQUEST[:place], REQUEST[place:]] for place in range(1, len(REQUEST))]
    chance = random.Random(seed)
    for _ in range(100):
        places = sorted(chance.sample(range(1, len(REQUEST)), chance.randint(2, 9)))
        found.append([REQUEST[start:end] for start, end in zip([0, *places], [*places, None], strict=True)])
    return found


def check_parts(host: str, port: int) -> None:
    """The parts of one round are sent to all connections before those of the next, which takes the place of pauses."""
    every = splits(7)
    for start in range(0, len(every), 100):
        some = every[start : start + 100]
        connections = [RawConnection(host, port) for _ in some]
        try:
            for turn in range(max(map(len, some))):
                for connection, parts in zip(connections, some, strict=True):
                    if turn < len(parts):
                        connection.send(parts[turn])
            for connection, parts in zip(connections, some, strict=True):
                response = connection.response()
                assert response is not None and response.text == "200 a", parts
                assert state(connection) == "open", parts
        finally:
            for connection in connections:
                connection.__exit__()


def test_a_request_may_arrive_in_any_parts(server: HttpProcess) -> None:
    check_parts(server.host, server.port)
