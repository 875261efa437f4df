"""Three replicas of one server, behind nginx."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.redis_server import redis_server
from tests.support.replicas import Replicas

SERVERS = Path(__file__).parent / "servers"
RECORDING = SERVERS / "recording.py"


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """The folder in which the recording server keeps its files."""
    folder = tmp_path / "record"
    folder.mkdir()
    return folder


@pytest.fixture
def start(tmp_path: Path, record: Path) -> Iterator[Callable[..., Replicas]]:
    """Start replicas of the recording server with a store, which end with the test."""
    with ExitStack() as stack:

        def started(store: str, *options: str, number: int = 3) -> Replicas:
            replicas = Replicas(
                RECORDING, tmp_path / "nginx", store, *options, number=number, environment={"RECORD": str(record)}
            )
            stack.callback(lambda: print(replicas.stderr))  # shown if the test fails
            return stack.enter_context(replicas)

        yield started


@pytest.fixture
def replicas(start: Callable[..., Replicas], tmp_path: Path) -> Iterator[Replicas]:
    """Three replicas with one Redis server."""
    with redis_server(tmp_path / "redis") as redis:
        yield start(redis.url)
