"""`Context`: the request that a handler serves, with progress, logging and questions to the client."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from dovetail.runtime.pending_requests import OnProgress
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.types.client_features import CreateMessageResult, ElicitResult, ListRootsResult, Root
from dovetail.wire.jsonrpc import Id

from .explained_options import explain_options
from .invocation import Invocation

if TYPE_CHECKING:
    from .features.logging import Log
    from .mrtr.client_requests import Answer, ClientRequests, Prompt, SampleOptions


if TYPE_CHECKING:
    # Only for type checkers, whose `typing_extensions` is built in: `Context` without a type is `Context[Any]`.
    from typing_extensions import TypeVar

    State = TypeVar("State", default=Any)
else:
    State = TypeVar("State")

T = TypeVar("T")
P = ParamSpec("P")


class RequestContext(Generic[State]):
    """The facts about a request, which `Context` and `SyncContext` share; reading them never waits."""

    __slots__ = ("_invocation",)

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    if not TYPE_CHECKING:  # for a type checker every attribute would exist

        def __getattr__(self, name: str) -> Any:
            from .other_names import CONTEXT_MEMBERS, unknown_member

            raise unknown_member(f"{type(self).__name__.replace('Thread', '')!r} object", name, CONTEXT_MEMBERS)

    @property
    def server(self) -> Any:
        """The `Server` that the handler was registered with."""
        return self._invocation.server.public

    @property
    def request_id(self) -> Id:
        """The JSON-RPC id of the request."""
        return self._invocation.call.request.id

    @property
    def revision(self) -> str:
        """The protocol revision of the request, by its date."""
        return self._invocation.call.terms.revision.name

    @property
    def client(self) -> Implementation | None:
        """The client's name and version as it states them; not verified, so do not base decisions on it."""
        return self._invocation.call.terms.client

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """The capabilities that the client declared."""
        return self._invocation.call.terms.capabilities

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the request."""
        return self._invocation.call.request.params.get("_meta") or {}

    @property
    def principal(self) -> str | None:
        """The authenticated caller, or None where there is no authentication, as over stdio."""
        return self._invocation.call.terms.principal

    @property
    def scopes(self) -> frozenset[str] | None:
        """The scopes of the caller's token; None where there are no tokens, as over stdio."""
        return self._invocation.call.terms.scopes

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request that is served, without credentials; empty on other transports.

        In a call that asked the client something, they are those of the request that brought the answer where each
        round is a request of its own. They are what the client or a proxy wrote: not verified.
        """
        from .request_headers import RequestHeaders

        # Only the sinks of HTTP requests have any, on the replica that they reached and on one that serves them for it.
        return RequestHeaders(getattr(self._invocation.call.sink, "request_headers", None) or {})

    @property
    def lifespan(self) -> State:
        """The value that the server's lifespan yielded; `Context[State]` has its type."""
        return self._invocation.server.lifespan_state

    @property
    def answers(self) -> Mapping[str, Any]:
        """The client's answers to an `InputRequired` that the handler returned before."""
        return self._invocation.answers

    @property
    def state(self) -> str | None:
        """The state that the handler returned with that `InputRequired`."""
        return self._invocation.request_state

    @property
    def ask(self) -> ClientRequests:
        """Questions as values, for a handler that returns `InputRequired` itself."""
        return self._invocation.client_requests

    def elicitation_complete(self, id: str | None) -> None:
        """Notify the client that the user is done at a page, where the revision has such a notification."""
        self._invocation.server.url_elicitations.complete(id)


def invocation_of(ctx: RequestContext[Any]) -> Invocation:
    """The invocation behind a context, for the framework's own parts that authors hand a context."""
    return ctx._invocation  # pyright: ignore[reportPrivateUsage]


class Context(RequestContext[State]):
    """The request an `async def` handler serves; declare a parameter of this type to get it.

    `Context[State]` has the type of `ctx.lifespan`. In a plain `def` handler, declare `SyncContext`.
    """

    __slots__ = ()

    @property
    def log(self) -> Log:
        """Log messages to the client: `await ctx.log.info("booking", city=city)`."""
        from .features.logging import Log

        return Log(self._invocation, self._invocation.server.info.name)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress; it is sent only if the client asked for it."""
        await self._invocation.call.progress(progress, total, message)

    async def status(self, message: str) -> None:
        """Describe the state of the work in a few words; a task shows them to its client, a call ignores them."""
        await self._invocation.call.status(message)

    @overload
    async def elicit(self, message: str, form: type[T], *, key: str | None = None) -> Answer[T]: ...

    @overload
    async def elicit(
        self, message: str, form: dict[str, Any] | None = None, *, key: str | None = None
    ) -> Answer[dict[str, Any]]: ...

    @explain_options("ctx.elicit", "ELICIT_OPTIONS")
    async def elicit(
        self, message: str, form: type | dict[str, Any] | None = None, *, key: str | None = None
    ) -> Answer[Any]:
        """Ask the user to fill in a form made from a type, or from a schema; without one, for consent only.

        The answer has `accepted`, and `data` as an instance of the type. `key` names the question, for handlers that
        ask the same twice in an order that varies.
        """
        from .mrtr.client_requests import elicit_form

        return await elicit_form(self._invocation, message, form, key)

    async def elicit_url(
        self, message: str, url: str, *, id: str | None = None, key: str | None = None
    ) -> Answer[None]:
        """Ask the user to open a page, for what must not pass through the client, such as a password.

        An accepted answer says that the user agreed to go there, not what came of it. Where the revision has
        elicitation ids, the answer's `id` is for `elicitation_complete`; `id` sets one that the page knows.
        """
        from .features.url_elicitation import begin_url_elicitation
        from .mrtr.client_requests import answer_of

        invocation = self._invocation
        question = self.ask.elicit_url(message, url, id)
        elicitation_id = await begin_url_elicitation(question.params, invocation)
        result = await invocation.ask(question, key)
        assert isinstance(result, ElicitResult)
        return answer_of(result, None, elicitation_id)

    @explain_options("ctx.sample", "SAMPLE_OPTIONS")
    async def sample(
        self, prompt: Prompt, *, max_tokens: int, key: str | None = None, **options: Unpack[SampleOptions]
    ) -> CreateMessageResult:
        """Ask the client's model."""
        result = await self._invocation.ask(self.ask.sample(prompt, max_tokens=max_tokens, **options), key)
        assert isinstance(result, CreateMessageResult)
        return result

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """Ask for the client's roots: the directories and files that the server may work in."""
        result = await self._invocation.ask(self.ask.roots(), key)
        assert isinstance(result, ListRootsResult)
        return result.roots

    @overload
    async def step(
        self, name: str, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @overload
    async def step(self, name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run something that has an effect or varies, once over all rounds of a call.

        What the function returns is kept as JSON, and converted to the type that it declares to return; without one
        the result is that JSON. A failure raises `StepFailed`, also when it happened in an earlier round.
        """
        from .mrtr.steps import make_step, run_named_step

        invocation = self._invocation
        bound, pool = functools.partial(function, *args, **kwargs), invocation.server.thread_pool
        work = make_step(invocation, pool, bound, invocation.call.client_key)
        return await run_named_step(invocation.suspendable, name, function, work)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = 30,
        progress: OnProgress | None = None,
    ) -> Any:
        """Send the client a request and return the bare result; for methods of extensions, and for ping.

        Only on revisions where servers may send requests (not from 2026-07-28 on: stdio, "Receiving Messages").
        """
        return await self._invocation.send_request(method, params, timeout, progress)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send the client a notification; for methods of extensions."""
        call = self._invocation.call
        if not call.silent:
            call.notify(method, dict(params) if params is not None else None)

    def close_stream(self, retry: float = 1.0) -> None:
        """Close the HTTP connection that the client waits on; it reconnects for the rest after `retry` seconds.

        For long work over HTTP where the revision has polling (2025-11-25, "Sending Messages"); elsewhere nothing
        happens.
        """
        call = self._invocation.call
        if call.terms.revision.sse_polling:
            call.sink.disconnect(retry)
