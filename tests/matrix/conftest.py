"""One loop for all tests of the matrix: they share connections, as a process a test would take too long."""

import asyncio
import contextlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client
from dovetail.protocol.revisions import REVISIONS
from tests.conftest import PATIENCE
from tests.matrix.connections import WAYS, ClientNotes, Ground, Setting, Transport, reached, setting, target
from tests.support.oracle import Oracle
from tests.support.replica_group import REPLICAS, replica_hosts
from tests.support.shared_uvicorn import applications


class Loop:
    """A loop that outlives a test, and the connections that tests share on it."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self._shared: dict[tuple[str, Transport], tuple[Setting, contextlib.AsyncExitStack]] = {}

    def shared(self, revision: str, transport: Transport) -> Setting:
        """The open connection of this revision and transport."""
        key = (revision, transport)
        if key not in self._shared:
            self._shared[key] = self.runner.run(self._connect(revision, transport))
        return self._shared[key][0]

    def drop_shared(self) -> None:
        """Close all: the next test finds everything fresh."""
        while self._shared:
            _, (_, stack) = self._shared.popitem()
            self.runner.run(stack.aclose())

    async def _connect(self, revision: str, transport: Transport) -> tuple[Setting, contextlib.AsyncExitStack]:
        async with contextlib.AsyncExitStack() as stack:
            address = await stack.enter_async_context(reached(target(transport)))
            made = setting(address, revision)
            await stack.enter_async_context(made.client)
            return made, stack.pop_all()


@pytest.fixture(scope="session", autouse=True)
def loop() -> Iterator[Loop]:
    with asyncio.Runner() as runner:
        ground = contextlib.AsyncExitStack()
        Ground.applications = runner.run(ground.enter_async_context(applications()))
        if REPLICAS:
            Ground.replicas = runner.run(ground.enter_async_context(replica_hosts()))
        made = Loop(runner)
        yield made
        made.drop_shared()
        runner.run(ground.aclose())


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not exist: not every transport has every revision, and only HTTP has replicas."""
    left_out = [item for item in items if _is_of_the_matrix(item) and not (_exists(item) and _has_replicas(item))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _is_of_the_matrix(item: pytest.Item) -> bool:
    return Path(__file__).parent in item.path.parents and isinstance(item, pytest.Function)


def _exists(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    given: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    transport, revision = _transport(given), given.get("revision")
    return transport is None or revision is None or revision in WAYS[transport].revisions


def _transport(given: dict[str, Any]) -> Transport | None:
    """The transport of a test, or of the connection that it shares with others."""
    return given.get("transport") or given.get("connection")


def _has_replicas(item: pytest.Item) -> bool:
    """With DOVETAIL_REPLICAS, only tests whose server has a URL are there."""
    assert isinstance(item, pytest.Function)
    given: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    transport = _transport(given)
    return not REPLICAS or (transport is not None and bool(WAYS[transport].path))


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=WAYS)
def transport(request: pytest.FixtureRequest) -> Transport:
    return request.param


@pytest.fixture
def shared(loop: Loop, revision: str, transport: Transport) -> Iterator[Setting]:
    """The connection that tests share; each of them answers for what was said during it."""
    made = loop.shared(revision, transport)
    made.verdict()
    made.oracle.messages.clear()
    made.wire.messages.clear()
    yield made
    made.verdict()


@pytest.fixture
def client(shared: Setting) -> Client:
    return shared.client


@pytest.fixture
def oracle(shared: Setting) -> Oracle:
    return shared.oracle


@pytest.fixture
def notes(shared: Setting) -> ClientNotes:
    return shared.notes


@pytest.fixture
def wire(shared: Setting) -> Oracle:
    """What really went over the wire."""
    return shared.wire
