"""The pytest plugin: a client for the server under test, scripted answers, transcripts and snapshots.

    @pytest.fixture
    def mcp_server():
        return server                       # or in the ini file: mcp_server = weather:server

    async def test_add(mcp_client):         # runs by itself, or under pytest-asyncio or anyio on asyncio
        assert (await mcp_client.call("add", a=1, b=2)).data == 3

    def test_add_without_async(mcp_blocking): ...
    async def test_report(mcp_client, mcp_clock): ...    # await mcp_clock.advance(3600)

    @pytest.mark.mcp(revisions="all")       # once a protocol revision
    @pytest.mark.mcp(transcript="a.jsonl")  # against the file; `--mcp-update` records it again
    @pytest.mark.mcp(timeout=5)             # any other option of Client

Nothing heavy is imported here: pytest loads this module in every run.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dovetail.client.blocking import BlockingClient
    from dovetail.client.client import Client

    from .interface_reader import Interface
    from .scripted_answers import Script
    from .transcript import Transcript
    from .transcript_server import Replay
    from .virtual_clock import VirtualClock

_OWN = ("revision", "revisions", "transcript", "hide")
_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_NO_SERVER = "Which server? Override the fixture mcp_server, set it in the ini file, or use @pytest.mark.mcp(server)"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line option and the ini option."""
    group = parser.getgroup("mcp", "servers of the Model Context Protocol")
    group.addoption("--mcp-update", action="store_true", help="write snapshots and transcripts again")
    parser.addini("mcp_server", "the server under test: module:object, or a command")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "mcp(server, *, revision, revisions, transcript, hide, **options): the server of this test, the protocol "
        "revision or revisions to test on, a transcript to run from, and options of Client",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each revision that its marker names."""
    revisions = _marked(metafunc.definition)[1].get("revisions")
    if revisions is not None and "mcp_revision" in metafunc.fixturenames:
        from dovetail.protocol.revisions import REVISIONS

        metafunc.parametrize("mcp_revision", list(REVISIONS) if revisions == "all" else list(revisions))


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test that takes a client or a clock, unless another plugin runs it."""
    if not {"mcp_client", "mcp_clock"} & pyfuncitem.funcargs.keys() or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    import asyncio

    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture
def mcp_server(request: pytest.FixtureRequest) -> Any:
    """The server under test: any target of `Client`. Override this fixture."""
    named: str = request.config.getini("mcp_server")
    if not named:
        raise pytest.UsageError(_NO_SERVER)
    return _find(named)


@pytest.fixture
def mcp_revision(request: pytest.FixtureRequest) -> str | None:
    """The protocol revision; None lets client and server negotiate."""
    return _marked(request.node)[1].get("revision")


@pytest.fixture
def mcp_script(request: pytest.FixtureRequest) -> Iterator[Script]:
    """Answers to the requests of the server; the test fails if one is unused or missing."""
    from .scripted_answers import Script

    script = Script()

    @contextlib.contextmanager
    def checked() -> Generator[None]:
        try:
            yield
        except BaseException as problem:
            for unexpected in script.problems:
                problem.add_note(unexpected)
            raise
        script.check()

    with _wrapped(request.node, checked):
        yield script


@pytest.fixture
def mcp_client(request: pytest.FixtureRequest, mcp_revision: str | None) -> Iterator[Client]:
    """A client of the server under test, open while an async test runs."""
    from dovetail.client.client import Client

    if not inspect.iscoroutinefunction(_function(request).obj):
        raise pytest.UsageError("mcp_client is for `async def` tests; use mcp_blocking in others")
    setup = _ClientSetup(request, mcp_revision)
    client = Client(setup.target, **setup.options)

    @contextlib.asynccontextmanager
    async def opened() -> AsyncGenerator[None]:
        async with client:
            yield
        setup.finish()

    with _wrapped(request.node, opened):
        yield client


@pytest.fixture
def mcp_clock(request: pytest.FixtureRequest) -> Iterator[VirtualClock]:
    """The time of an async test, its client and the server under test: `await mcp_clock.advance(3600)`."""
    from dovetail.server.app import Server

    from .virtual_clock import VirtualClock

    if not inspect.iscoroutinefunction(_function(request).obj):
        raise pytest.UsageError("mcp_clock is for `async def` tests: threads have a time of their own")
    server = _target(request)
    if not isinstance(server, Server):
        raise pytest.UsageError(f"mcp_clock is for servers in this process, as `Server` objects, not for {server!r}")
    if "mcp_client" in request.fixturenames:
        request.getfixturevalue("mcp_client")  # so that the clock runs before it and after it
    clock = VirtualClock(server)
    with _wrapped(request.node, lambda: clock):
        yield clock


@pytest.fixture
def mcp_blocking(request: pytest.FixtureRequest, mcp_revision: str | None) -> Iterator[BlockingClient]:
    """A blocking client of the server under test."""
    from dovetail.client.client import Client

    setup = _ClientSetup(request, mcp_revision)
    client = Client.blocking(setup.target, **setup.options)

    @contextlib.contextmanager
    def finished() -> Generator[None]:
        yield
        client.close()
        setup.finish()

    with client, _wrapped(request.node, finished):
        yield client


@pytest.fixture
def mcp_snapshot(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare an interface with the one in a file: `mcp_snapshot(await interface(mcp_client))`.

    The file is in `snapshots/` beside the test, named after the test or by the second argument.
    """
    from dovetail.protocol.errors import LocalError

    from .snapshot import check_snapshot, save_snapshot

    def check(current: Interface, name: str | None = None) -> None:
        called = name or re.sub(r"[^\w.-]+", "-", f"{request.path.stem}.{request.node.name}").strip("-")
        path = request.path.parent / "snapshots" / f"{called}.json"
        if request.config.getoption("--mcp-update"):
            save_snapshot(current, path)
        elif not path.exists():
            raise LocalError(f"There is no snapshot {path} yet: run pytest with --mcp-update to write it")
        else:
            check_snapshot(current, path)

    return check


class _ClientSetup:
    """Target and options of a test's client, and the transcript of the test."""

    def __init__(self, request: pytest.FixtureRequest, revision: str | None) -> None:
        _, options = _marked(request.node)
        self.options: dict[str, Any] = {name: value for name, value in options.items() if name not in _OWN}
        self._transcript: Transcript | None = None
        self._replay: Replay | None = None
        self._path: Path | None = None
        if revision is not None:
            self.options["revision"] = revision
        if "mcp_script" in request.fixturenames:
            self.options.update(request.getfixturevalue("mcp_script").options)
        if options.get("transcript") is not None:
            self._use(request, options)
        self.target: Any = _target(request) if self._replay is None else self._replay

    def finish(self) -> None:
        """After a successful test, save the transcript or check that the client followed it."""
        if self._replay is not None:
            self._replay.check()
        elif self._transcript is not None and self._path is not None:
            self._transcript.save(self._path)

    def _use(self, request: pytest.FixtureRequest, options: dict[str, Any]) -> None:
        from dovetail.protocol.errors import LocalError

        from .transcript import SECRETS, Transcript
        from .transcript_server import Replay

        path: Path = request.path.parent / options["transcript"]
        if request.config.getoption("--mcp-update"):
            self._transcript = Transcript(hide=options.get("hide", SECRETS))
            self.options["trace"] = self._transcript
            self._path = path
        elif path.exists():
            self._replay = Replay(path)
        else:
            raise LocalError(f"There is no transcript {path} yet: run pytest with --mcp-update to record it")


def _marked(node: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of the markers of a test; the test's own marker takes precedence."""
    given: tuple[Any, ...] = ()
    options: dict[str, Any] = {}
    for mark in node.iter_markers("mcp"):
        given = given or mark.args
        options = {**mark.kwargs, **options}
    return given, options


def _target(request: pytest.FixtureRequest) -> Any:
    """The server of a test: that of its marker, or of the fixture."""
    given, _ = _marked(request.node)
    if not given:
        return request.getfixturevalue("mcp_server")
    return _find(given[0]) if isinstance(given[0], str) else given[0]


def _find(named: str) -> Any:
    """Import `module:object`; any other text is a command."""
    if not _OBJECT.fullmatch(named):
        return named
    import importlib

    module, _, name = named.partition(":")
    return getattr(importlib.import_module(module), name)


def _function(request: pytest.FixtureRequest) -> pytest.Function:
    assert isinstance(request.node, pytest.Function)
    return request.node


@contextlib.contextmanager
def _wrapped(node: Any, around: Callable[[], Any]) -> Generator[None]:
    """Run the test function inside a context manager, whatever plugin and loop run it."""
    test = node.obj

    async def run_async(*args: Any, **kwargs: Any) -> Any:
        async with contextlib.AsyncExitStack() as stack:
            manager = around()
            if hasattr(manager, "__aenter__"):
                await stack.enter_async_context(manager)
            else:
                stack.enter_context(manager)
            return await test(*args, **kwargs)

    def run(*args: Any, **kwargs: Any) -> Any:
        with around():
            return test(*args, **kwargs)

    node.obj = functools.wraps(test)(run_async if inspect.iscoroutinefunction(test) else run)
    try:
        yield
    finally:
        node.obj = test
