"""A misbehaving server and a client written by hand, on one revision of each era."""

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
    """Close the connection: no further messages, exit code 0."""
    server.close_input()
    assert server.rest() == []
    assert server.wait() == 0, server.stderr


@pytest.fixture
def fresh_server(revision: str) -> Iterator[RawServer]:
    """The misbehaving server, initialized."""
    with RawServer(NASTY) as server:
        yield server.open(revision)
        end(server)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, RawServer]]:
    """One misbehaving server per revision, shared by tests until one of them breaks it."""
    running: dict[str, RawServer] = {}
    try:
        yield running
        for server in running.values():
            end(server)
    finally:
        for server in running.values():
            server.kill()


@pytest.fixture
def still_working_server(revision: str, servers: dict[str, RawServer]) -> Iterator[RawServer]:
    """One connection for all tests of a module; each test ends with a call that must succeed."""
    server = servers.pop(revision, None) or RawServer(NASTY).open(revision)
    try:
        yield server
        server.still_works()
    except BaseException:
        server.kill()
        raise
    servers[revision] = server
