"""The client for code without async: a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from dovetail.protocol.errors import LocalError
from dovetail.runtime.pending_requests import OnProgress
from dovetail.types.capabilities import Implementation, ServerCapabilities
from dovetail.types.messages import Completion, LogLevel
from dovetail.types.prompts import GetPromptResult, Prompt
from dovetail.types.resources import ReadResourceResult, Resource, ResourceTemplate
from dovetail.types.tools import CallToolResult, Tool

from .client import Client
from .roots import Roots

if TYPE_CHECKING:
    from .completion import Reference
    from .subscriptions import Change

T = TypeVar("T")
P = ParamSpec("P")


class BlockingClient:
    """One server; every method waits for its answer."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._client: Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect and agree on a revision."""
        if self._loop is not None:
            raise LocalError("This client is open already")
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(loop,), name="dovetail-client", daemon=True)
        self._thread.start()
        try:
            client = self._make()
            self._wait(client.open())
        except BaseException:
            self._stop()
            raise
        self._client = client

    def close(self) -> None:
        """Disconnect; a server that this client started is ended."""
        client, self._client = self._client, None
        if client is not None:
            try:
                self._wait(client.close())
            finally:
                self._stop()

    @property
    def revision(self) -> str:
        """The protocol revision that both sides agreed on."""
        return self._opened().revision

    @property
    def server(self) -> Implementation | None:
        """Who the server says it is; not verified."""
        return self._opened().server

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server can do."""
        return self._opened().capabilities

    @property
    def instructions(self) -> str | None:
        """How the server wants to be used, in words for a model."""
        return self._opened().instructions

    def tools(self) -> list[Tool]:
        """Every tool, over all pages."""
        return self._wait(self._opened().tools())

    def resources(self) -> list[Resource]:
        """Every resource, over all pages."""
        return self._wait(self._opened().resources())

    def resource_templates(self) -> list[ResourceTemplate]:
        """Every resource template, over all pages."""
        return self._wait(self._opened().resource_templates())

    def prompts(self) -> list[Prompt]:
        """Every prompt, over all pages."""
        return self._wait(self._opened().prompts())

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        check: bool = True,
        **named: Any,
    ) -> CallToolResult:
        """Call a tool; `progress` is called on the client's own thread."""
        called = self._opened().call(name, arguments, timeout=timeout, progress=progress, check=check, **named)
        return self._wait(called)

    def read(self, uri: str, *, timeout: float | None = None) -> ReadResourceResult:
        """Read a resource."""
        return self._wait(self._opened().read(uri, timeout=timeout))

    def prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        /,
        *,
        timeout: float | None = None,
        **named: str,
    ) -> GetPromptResult:
        """Get a prompt, filled in."""
        return self._wait(self._opened().prompt(name, arguments, timeout=timeout, **named))

    def complete(
        self,
        reference: Reference,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Completion:
        """Suggestions for an argument of a prompt, by name, or for a variable of a resource template."""
        asked = self._opened().complete(reference, argument, value, context=context, debounce=0, timeout=timeout)
        return self._wait(asked)

    def watch(
        self, *uris: str, tools: bool = False, resources: bool = False, prompts: bool = False
    ) -> Generator[Change]:
        """Wait for resources, and those below them, or for lists to change."""
        client = self._opened()
        changes = self._wait(_on_the_loop(client.watch, *uris, tools=tools, resources=resources, prompts=prompts))
        try:
            while (change := self._wait(_next(changes))) is not None:
                yield change
        finally:
            if self._client is client:
                self._wait(changes.aclose())

    def restart(self) -> None:
        """Disconnect and connect anew; a server that this client started is started anew."""
        self._wait(self._opened().restart())

    def ping(self, *, timeout: float | None = None) -> None:
        """See whether the server answers."""
        self._wait(self._opened().ping(timeout=timeout))

    def set_roots(self, roots: Roots) -> None:
        """Have other roots; a server that can be told of it is."""
        self._wait(_on_the_loop(self._opened().set_roots, roots))

    def set_log_level(self, level: LogLevel) -> None:
        """Hear of what the server logs from this level on."""
        self._wait(self._opened().set_log_level(level))

    def _opened(self) -> Client:
        if self._client is None:
            raise LocalError("This client is not open: use `with Client.blocking(…)`, or call open()")
        return self._client

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the loop's thread; Ctrl-C here cancels it there, which tells the server."""
        if threading.current_thread() is self._thread:
            work.close()
            raise LocalError("A callback of a blocking client cannot wait for that same client")
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            concurrent.futures.wait([future], timeout=5)
            raise

    def _stop(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


async def _on_the_loop(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    return function(*arguments, **options)


async def _next(changes: AsyncGenerator[Change]) -> Change | None:
    return await anext(changes, None)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run until stopped; what then still runs is cancelled, as `asyncio.run` does."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
