"""Blocking client: the client for code without async, with an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, overload

from dovetail.protocol.errors import DovetailError, LocalError
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
    from .tasks.blocking_task import BlockingTask
    from .tasks.task import Task

T = TypeVar("T")
P = ParamSpec("P")


class BlockingClient:
    """A client of one server whose methods block until the answer has come."""

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
        """Connect and negotiate the revision."""
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
        """Disconnect; a server that this client started is stopped."""
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
        """The server's name and version, as it gives them itself; not verified."""
        return self._opened().server

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities that the server has declared."""
        return self._opened().capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model."""
        return self._opened().instructions

    def tools(self) -> list[Tool]:
        """All tools, from all pages."""
        return self._wait(self._opened().tools())

    def resources(self) -> list[Resource]:
        """All resources, from all pages."""
        return self._wait(self._opened().resources())

    def resource_templates(self) -> list[ResourceTemplate]:
        """All resource templates, from all pages."""
        return self._wait(self._opened().resource_templates())

    def prompts(self) -> list[Prompt]:
        """All prompts, from all pages."""
        return self._wait(self._opened().prompts())

    @overload
    def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: None = None,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        check: bool = True,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> CallToolResult[Any]: ...

    @overload
    def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[T],
        timeout: float | None = None,
        progress: OnProgress | None = None,
        check: bool = True,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> CallToolResult[T]: ...

    @overload
    def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: Any,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        check: bool = True,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> CallToolResult[Any]: ...

    def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: Any = None,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        check: bool = True,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> CallToolResult[Any]:
        """Call a tool, with the options of `Client.call`; `progress` is called on the client's own thread."""
        client = self._opened()
        return self._wait(
            client.call(
                name, arguments, returns=returns, timeout=timeout, progress=progress, check=check, meta=meta, **named
            )
        )

    @overload
    def start(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[T],
        ttl: float | None = None,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> BlockingTask[T]: ...

    @overload
    def start(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: Any = None,
        ttl: float | None = None,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> BlockingTask[Any]: ...

    def start(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: Any = None,
        ttl: float | None = None,
        meta: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> BlockingTask[Any]:
        """Call a tool without waiting for its result, with the options of `Client.start`."""
        return self._blocking_task(
            self._wait(self._opened().start(name, arguments, returns=returns, ttl=ttl, meta=meta, **named))
        )

    @overload
    def task(self, reference: str, *, returns: type[T]) -> BlockingTask[T]: ...

    @overload
    def task(self, reference: str, *, returns: Any = None) -> BlockingTask[Any]: ...

    def task(self, reference: str, *, returns: Any = None) -> BlockingTask[Any]:
        """The task that a `task.reference` stands for, perhaps from another process; no request is sent yet."""
        return self._blocking_task(self._wait(_on_the_loop(self._opened().task, reference, returns=returns)))

    def tasks(self) -> list[BlockingTask[Any]]:
        """All tasks that the server keeps for this client, where it lists them."""
        return [self._blocking_task(task) for task in self._wait(self._opened().tasks())]

    def _blocking_task(self, task: Task[Any]) -> BlockingTask[Any]:
        from .tasks.blocking_task import BlockingTask

        return BlockingTask(task, self._wait)

    def read(self, uri: str, *, timeout: float | None = None) -> ReadResourceResult:
        """Read a resource."""
        return self._wait(self._opened().read(uri, timeout=timeout))

    def prompt(
        self,
        name: str,
        /,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        **named: str,
    ) -> GetPromptResult:
        """Get a prompt, filled in with keywords, or with the mapping `arguments`."""
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
        """Subscribe to changes of resources, with those below them, or of lists."""
        client = self._opened()
        changes = self._wait(_on_the_loop(client.watch, *uris, tools=tools, resources=resources, prompts=prompts))
        try:
            while (change := self._wait(_next(changes))) is not None:
                yield change
        finally:
            if self._client is client:
                self._wait(changes.aclose())

    def restart(self) -> None:
        """Disconnect and connect again; a server that this client started is restarted."""
        self._wait(self._opened().restart())

    def ping(self, *, timeout: float | None = None) -> None:
        """Check that the server answers."""
        self._wait(self._opened().ping(timeout=timeout))

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots, and notify the server where the revision has a notification for that."""
        self._wait(_on_the_loop(self._opened().set_roots, roots))

    def set_log_level(self, level: LogLevel) -> None:
        """Receive the server's log messages of this level and above."""
        self._wait(self._opened().set_log_level(level))

    def _opened(self) -> Client:
        if self._client is None:
            raise LocalError("This client is not open: use `with Client.blocking(…)`, or call open()")
        return self._client

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the loop's thread; Ctrl-C here cancels the request there."""
        if threading.current_thread() is self._thread:
            work.close()
            raise LocalError("A callback of a blocking client cannot wait for that same client")
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except DovetailError as problem:
            # Without the frames of the client's own thread, which say nothing about the caller's code.
            raise problem.with_traceback(None) from problem.__cause__
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
    """Run the loop until it is stopped, then cancel the remaining tasks, as `asyncio.run` does."""
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
