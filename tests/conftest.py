"""What every test can rely on: `async def` tests run on a fresh loop, cannot hang, and leave no error unseen.

Where DOVETAIL_SPEC names the official schemas, whatever Dovetail sends during a test is held against them.
"""

import asyncio
import inspect
import os
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from dovetail.client.negotiation import SHARED_ERAS
from tests.support.closed_schema import spec_folder
from tests.support.replica_group import REPLICAS
from tests.support.traffic import Traffic

PATIENCE = 60.0

# The machine may be busy: an example that takes long is not a bug.
hypothesis.settings.register_profile("house", deadline=None)
hypothesis.settings.load_profile("house")

TRAFFIC = pytest.StashKey[Traffic]()


MARKS = (
    "sends_wrong(why): makes Dovetail send what no schema allows, because its user wants it so",
    "one_replica(why): tests what each replica of a server does by itself; left out with DOVETAIL_REPLICAS",
    "unheard(why): would measure that somebody listens to all that is sent",
)


def pytest_configure(config: pytest.Config) -> None:
    """Listen to all that is sent, where it can be judged."""
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    runs_tests = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts its background jobs so, and programs under test would never see Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if runs_tests:
        # Commands remember names of tools for completion; those of the tests are not for the user's cache.
        caches = tempfile.TemporaryDirectory()
        config.add_cleanup(caches.cleanup)
        os.environ["XDG_CACHE_HOME"] = caches.name
    if spec_folder() is not None and runs_tests:
        folder = tempfile.TemporaryDirectory()
        config.add_cleanup(folder.cleanup)
        traffic = config.stash[TRAFFIC] = Traffic()
        traffic.listen(Path(folder.name))


def pytest_report_header() -> str:
    if spec_folder() is not None:
        return "traffic: all that is sent is held against the official schemas"
    return "traffic: NOT CHECKED. Set DOVETAIL_SPEC to a folder that holds <revision>/schema.json."


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Pass the entries of a regression test of an attack on to its reports, which have no marks.

    With DOVETAIL_REPLICAS, leave out what each replica does by itself.
    """
    for item in items:
        for mark in item.iter_markers("attack"):
            item.user_properties += [("attack", entry) for entry in mark.args]
    left_out = [item for item in items if REPLICAS and item.get_closest_marker("one_replica") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    if TRAFFIC in item.config.stash:
        item.config.stash[TRAFFIC].deaf = item.get_closest_marker("unheard") is not None
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Judge what was sent during a test, its end included; forget the eras of its servers.

    A later test may be given the same port for a server of the other era.
    """
    result = yield
    SHARED_ERAS.clear()
    if TRAFFIC in item.config.stash:
        problems = item.config.stash[TRAFFIC].verdict()
        if problems and item.get_closest_marker("sends_wrong") is None:
            pytest.fail("Dovetail sent what it must not:\n" + "\n".join(problems[:20]), pytrace=False)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function to its end.

    What asyncio only logs (an exception that nobody retrieved, a callback that failed) fails the test.
    """
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    unseen: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: unseen.append(problem))
        async with asyncio.timeout(PATIENCE):
            await test(**arguments)

    asyncio.run(bounded())
    assert not unseen, f"asyncio reported: {unseen}"
    return True
