"""A server with every bad habit, spoken to by hand, on one revision of each era."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.raw import ENVELOPE, HANDSHAKE, RawServer, script

SERVERS = Path(__file__).parent / "servers"
NASTY = script(SERVERS / "nasty.py")


@pytest.fixture(params=[HANDSHAKE, ENVELOPE])
def revision(request: pytest.FixtureRequest) -> str:
    return request.param


def end(server: RawServer) -> None:
    """The server ends in order: nothing unasked for was sent, nothing went wrong."""
    server.close_input()
    assert server.rest() == []
    assert server.wait() == 0, server.stderr


@pytest.fixture
def fresh_server(revision: str) -> Iterator[RawServer]:
    """The nasty server, greeted and ready."""
    with RawServer(NASTY) as server:
        yield server.open(revision)
        end(server)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, RawServer]]:
    """One nasty server a revision, for as many tests as leave it in good health."""
    running: dict[str, RawServer] = {}
    try:
        yield running
        for server in running.values():
            end(server)
    finally:
        for server in running.values():
            server.kill()


@pytest.fixture
def server(revision: str, servers: dict[str, RawServer]) -> Iterator[RawServer]:
    """The same connection for one bad thing after the other; it has to work after each of them."""
    server = servers.pop(revision, None) or RawServer(NASTY).open(revision)
    try:
        yield server
        server.still_works()
    except BaseException:
        server.kill()
        raise
    servers[revision] = server
