"""One loop for all tests of the matrix: they share connections, as a process a test would take too long."""

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from dovetail import Client
from dovetail.protocol.revisions import REVISIONS
from tests.conftest import PATIENCE
from tests.matrix.setting import TRANSPORTS, ClientNotes, Setting, Transport, setting, target
from tests.support.oracle import Oracle


class Loop:
    """A loop that outlives a test, and the connections that tests share on it."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self._shared: dict[tuple[str, Transport], Setting] = {}

    def shared(self, revision: str, transport: Transport) -> Setting:
        """The open connection of this revision and transport."""
        key = (revision, transport)
        if key not in self._shared:
            made = setting(target(transport), revision)
            self.runner.run(made.client.open())
            self._shared[key] = made
        return self._shared[key]

    def drop_shared(self) -> None:
        """Close all: the next test finds everything fresh."""
        while self._shared:
            _, made = self._shared.popitem()
            self.runner.run(made.client.close())


@pytest.fixture(scope="session", autouse=True)
def loop() -> Iterator[Loop]:
    with asyncio.Runner() as runner:
        made = Loop(runner)
        yield made
        made.drop_shared()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    loop = pyfuncitem.funcargs["loop"]
    assert isinstance(loop, Loop)
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await test(**arguments)

    try:
        loop.runner.run(bounded())
    except BaseException:
        loop.drop_shared()
        raise
    return True


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> Transport:
    return request.param


@pytest.fixture
def shared(loop: Loop, revision: str, transport: Transport) -> Iterator[Setting]:
    """The connection that tests share; each of them answers for what was said during it."""
    made = loop.shared(revision, transport)
    made.oracle.verdict()
    made.oracle.messages.clear()
    yield made
    made.oracle.verdict()


@pytest.fixture
def client(shared: Setting) -> Client:
    return shared.client


@pytest.fixture
def oracle(shared: Setting) -> Oracle:
    return shared.oracle


@pytest.fixture
def notes(shared: Setting) -> ClientNotes:
    return shared.notes
