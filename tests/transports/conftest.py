"""Fixtures of the tests of transports."""

from collections.abc import Iterator

import pytest

from tests.transports.pipes import Pipe


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close(pipe.reading, pipe.writing)
