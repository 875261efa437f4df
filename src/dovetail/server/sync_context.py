"""`SyncContext`: the context of handlers that are plain functions, whose methods block until they are done."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from dovetail.protocol.errors import LocalError
from dovetail.types.client_features import CreateMessageResult, Root
from dovetail.types.messages import LogLevel

from .context import Context, RequestContext, State
from .explained_options import explain_options
from .features.logging import Log
from .invocation import Invocation
from .loop_bridge import CallHere, LoopBridge
from .signatures.hints import BlockingContext

if TYPE_CHECKING:
    from dovetail.runtime.pending_requests import OnProgress

    from .mrtr.client_requests import Answer, Prompt, SampleOptions

T = TypeVar("T")
P = ParamSpec("P")


class SyncContext(RequestContext[State], BlockingContext):
    """The request a plain `def` handler serves; declare a parameter of this type to get it.

    It has the methods of `Context`, without `await`: each blocks its thread until it is done, and raises
    `asyncio.CancelledError` when the request is cancelled. `SyncContext[State]` has the type of `ctx.lifespan`.
    """

    __slots__ = ("_bridge", "_context")

    def __init__(self, invocation: Invocation) -> None:
        super().__init__(invocation)
        self._context: Context[State] = Context(invocation)
        self._bridge = invocation.bridge = LoopBridge()

    @property
    def log(self) -> SyncLog:
        """Log messages to the client: `ctx.log.info("booking", city=city)`."""
        return SyncLog(self._invocation, self._bridge)

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress; it is sent only if the client asked for it, and once where the handler runs again."""
        if not self._invocation.is_replaying:
            self._wait(self._context.progress, progress, total, message)

    def status(self, message: str) -> None:
        """Describe the state of the work in a few words; a task shows them to its client, a call ignores them."""
        if not self._invocation.is_replaying:
            self._wait(self._context.status, message)

    @overload
    def elicit(self, message: str, form: type[T], *, key: str | None = None) -> Answer[T]: ...

    @overload
    def elicit(
        self, message: str, form: dict[str, Any] | None = None, *, key: str | None = None
    ) -> Answer[dict[str, Any]]: ...

    def elicit(self, message: str, form: type | dict[str, Any] | None = None, *, key: str | None = None) -> Answer[Any]:
        """Ask the user to fill in a form made from a type, or from a schema; without one, for consent only.

        Where asking ends the request (2026-07-28), the thread is released by `asyncio.CancelledError`, and the handler
        runs again from its beginning when the answer has come: do what has an effect after the last question, or in a
        `step`.
        """
        from .mrtr.client_requests import elicit_form

        return self._wait(elicit_form, self._invocation, message, form, key)

    def elicit_url(self, message: str, url: str, *, id: str | None = None, key: str | None = None) -> Answer[None]:
        """Ask the user to open a page, for what must not pass through the client, such as a password."""
        return self._wait(self._context.elicit_url, message, url, id=id, key=key)

    @explain_options("ctx.sample", "SAMPLE_OPTIONS")
    def sample(
        self, prompt: Prompt, *, max_tokens: int, key: str | None = None, **options: Unpack[SampleOptions]
    ) -> CreateMessageResult:
        """Ask the client's model."""
        return self._bridge.run(lambda _: self._context.sample(prompt, max_tokens=max_tokens, key=key, **options))

    def roots(self, *, key: str | None = None) -> list[Root]:
        """Ask for the client's roots: the directories and files that the server may work in."""
        return self._wait(self._context.roots, key=key)

    @overload
    def step(
        self, name: str, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @overload
    def step(self, name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...

    def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run something that has an effect or varies, once over all rounds of a call.

        A plain function runs in the thread of the handler, an async one on the event loop. The result and failures are
        those of `Context.step`.
        """
        from .mrtr.steps import run_named_step, within_step

        bound = functools.partial(function, *args, **kwargs)
        invocation = self._invocation

        def work(call_here: CallHere) -> Coroutine[Any, Any, Any]:
            async def step() -> Any:
                outcome = await call_here(lambda: within_step(invocation, bound))
                return await outcome if inspect.isawaitable(outcome) else outcome

            return run_named_step(invocation.suspendable, name, function, step)

        if inspect.iscoroutinefunction(function):
            return self._wait(self._context.step, name, function, *args, **kwargs)
        return self._bridge.run(work)

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = 30,
        progress: OnProgress | None = None,
    ) -> Any:
        """Send the client a request and return the bare result; for methods of extensions, and for ping."""
        return self._wait(self._context.request, method, params, timeout=timeout, progress=progress)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send the client a notification; for methods of extensions."""
        self._bridge.call_soon(self._context.notify, method, params)

    def close_stream(self, retry: float = 1.0) -> None:
        """Close the HTTP connection that the client waits on; it reconnects for the rest after `retry` seconds."""
        self._bridge.call_soon(self._context.close_stream, retry)

    def _wait(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._bridge.run(lambda _: function(*args, **kwargs))


class SyncLog:
    """The log of a plain `def` handler: the methods of `Log`, which block until the message is sent."""

    __slots__ = ("_bridge", "_invocation", "_log")

    def __init__(self, invocation: Invocation, bridge: LoopBridge, name: str | None = None) -> None:
        self._invocation = invocation
        self._bridge = bridge
        self._log = Log(invocation, invocation.server.info.name if name is None else name)

    def named(self, name: str) -> SyncLog:
        """The same log under another logger's name."""
        return SyncLog(self._invocation, self._bridge, name)

    def __call__(self, level: LogLevel, message: str, /, **fields: Any) -> None:
        """Send a message with whatever belongs to it; what looks like a secret is taken out of it."""
        if not self._invocation.is_replaying:
            self._bridge.run(lambda _: self._log(level, message, **fields))

    def debug(self, message: str, /, **fields: Any) -> None:
        self("debug", message, **fields)

    def info(self, message: str, /, **fields: Any) -> None:
        self("info", message, **fields)

    def notice(self, message: str, /, **fields: Any) -> None:
        self("notice", message, **fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        self("warning", message, **fields)

    def error(self, message: str, /, **fields: Any) -> None:
        self("error", message, **fields)

    def critical(self, message: str, /, **fields: Any) -> None:
        self("critical", message, **fields)

    def alert(self, message: str, /, **fields: Any) -> None:
        self("alert", message, **fields)

    def emergency(self, message: str, /, **fields: Any) -> None:
        self("emergency", message, **fields)


def refuse_in_thread(name: str) -> None:
    """Raise LocalError in a thread, where nothing can be awaited."""
    if asyncio._get_running_loop() is None:
        raise LocalError(
            f"{name}(…) has to be awaited, which a plain def handler cannot do: declare ctx: SyncContext, "
            "whose methods need no await, or make the handler async def"
        )


def _awaited_only(name: str, method: Callable[..., Awaitable[Any]]) -> Any:
    """A method that works on the loop, as in a coroutine that the handler returns, and in a thread says what to do."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        refuse_in_thread(name)
        return method(self, *args, **kwargs)

    return call


class ThreadContext(Context[State]):
    """The `Context` of a plain `def` handler: what would have to be awaited is an error instead of a lost coroutine."""

    __slots__ = ("_loop",)

    def __init__(self, invocation: Invocation) -> None:
        super().__init__(invocation)
        self._loop = asyncio.get_running_loop()

    progress = _awaited_only("ctx.progress", Context.progress)
    status = _awaited_only("ctx.status", Context.status)
    elicit = _awaited_only("ctx.elicit", Context[Any].elicit)
    elicit_url = _awaited_only("ctx.elicit_url", Context.elicit_url)
    sample = _awaited_only("ctx.sample", Context.sample)
    roots = _awaited_only("ctx.roots", Context.roots)
    step = _awaited_only("ctx.step", Context[Any].step)
    request = _awaited_only("ctx.request", Context.request)

    @property
    def log(self) -> Log:
        """The log, whose methods have to be awaited too."""
        return _ThreadLog(self._invocation, self._invocation.server.info.name)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send the client a notification, from any thread."""
        self._loop.call_soon_threadsafe(super().notify, method, params)

    def close_stream(self, retry: float = 1.0) -> None:
        """Close the HTTP connection that the client waits on, from any thread."""
        self._loop.call_soon_threadsafe(super().close_stream, retry)


class _ThreadLog(Log):
    """The log of a `ThreadContext`."""

    __slots__ = ()


for _level in ("__call__", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
    _name = "ctx.log" if _level == "__call__" else f"ctx.log.{_level}"
    setattr(_ThreadLog, _level, _awaited_only(_name, getattr(Log, _level)))
