"""Invocation: one run of a handler, as the framework sees it. `Context` shows handlers the part that is theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.envelope import PROGRESS_TOKEN
from dovetail.protocol.errors import (
    INTERNAL_ERROR,
    REJECTED,
    InvalidAnswer,
    LocalError,
    MissingCapability,
    ProtocolError,
    Refused,
    RemoteError,
)
from dovetail.runtime.pending_requests import OnProgress
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.types.capabilities import Implementation
from dovetail.types.client_features import InputRequest, InputRequired, method_of
from dovetail.types.serialization import Value

from .session import ServerCall

if TYPE_CHECKING:
    from dovetail.protocol.mrtr import Journal
    from dovetail.runtime.middleware import Chain

    from .features.url_elicitation import UrlElicitations
    from .loop_bridge import LoopBridge
    from .mrtr.client_requests import ClientRequests
    from .mrtr.suspendable_call import SuspendableCall


class HandlerServer(Protocol):
    """The parts of a server that a run of one of its handlers uses."""

    @property
    def info(self) -> Implementation: ...
    @property
    def thread_pool(self) -> ThreadPool: ...
    @property
    def lifespan_state(self) -> Any: ...
    @property
    def middleware(self) -> Chain | None: ...
    @property
    def url_elicitations(self) -> UrlElicitations: ...
    @property
    def public(self) -> Any: ...


class Invocation:
    """One run of a handler: its call, its server, and the requests that it sends to the client."""

    __slots__ = ("_client_requests", "_keys", "answers", "bridge", "call", "request_state", "server", "suspendable")

    def __init__(self, server: HandlerServer, call: ServerCall) -> None:
        self.server = server
        """Of a mounted handler, the server that it was registered with."""
        self.call = call
        """The request that is served now; a suspended handler goes on with another one."""
        self.suspendable: SuspendableCall | None = None
        self.bridge: LoopBridge | None = None
        """The way of a plain function to the event loop, if it has declared a `SyncContext`."""
        self.answers: Mapping[str, Any] = {}
        self.request_state: str | None = None
        self._keys: Journal | None = None
        self._client_requests: ClientRequests | None = None

    @property
    def client_requests(self) -> ClientRequests:
        """Requests to the client as values, checked against its capabilities."""
        if self._client_requests is None:
            from .mrtr.client_requests import ClientRequests

            terms, no_requests = self.call.terms, self.call.sink.no_requests
            if no_requests is not None and terms.revision.server_requests == "direct":
                raise LocalError(f"The client cannot be asked: {no_requests}")
            self._client_requests = ClientRequests(terms.revision, terms.capabilities)
        return self._client_requests

    @property
    def is_replaying(self) -> bool:
        """True while a handler that runs again does what it has done in earlier rounds."""
        return self.suspendable is not None and self.suspendable.is_replaying

    def resume(self, call: ServerCall) -> None:
        """Serve another request of the same client, which has brought answers."""
        self.call = call
        self._client_requests = None  # each request declares anew what its client can do

    def check(self, asked: InputRequired) -> None:
        """Refuse questions that a handler returned and that the client has not declared it can answer."""
        try:
            self.client_requests.check(asked)
        except MissingCapability as problem:
            if self.call.terms.revision.server_requests == "rounds":
                raise problem.as_protocol_error() from problem
            raise ProtocolError(INTERNAL_ERROR, str(problem)) from problem

    async def ask(self, question: InputRequest, key: str | None) -> Any:
        """The client's answer: by a direct request, or in a round of the suspended call."""
        from .mrtr.steps import refuse_within_step

        refuse_within_step(self, method_of(question))
        if self.suspendable is not None:
            return await self.suspendable.ask(question, key)
        if key is not None:
            from dovetail.protocol.mrtr import Journal

            self._keys = self._keys or Journal()
            self._keys.key("", key)  # refuses a key that was used before, as a replay would
        return await self.ask_directly(question)

    async def ask_directly(self, question: InputRequest) -> Any:
        """Send a question as a request, where the revision lets a server do so."""
        revision, method, params = self.call.terms.revision, method_of(question), question.params
        try:
            raw = await self.send_request(method, None if params is None else revision.emit(params), None, None)
        except RemoteError as problem:
            if problem.code == REJECTED:
                raise Refused(problem.message) from problem
            raise
        try:
            return revision.load_result(method, raw)
        except RemoteError as problem:
            raise InvalidAnswer(problem.message) from None

    async def send_request(
        self, method: str, params: Mapping[str, Any] | None, timeout: float | None, progress: OnProgress | None
    ) -> Any:
        """Send the client a request, through the server's middleware, and return the bare result."""
        call = self.call
        if call.terms.revision.server_requests != "direct" or call.connection is None:
            raise LocalError(f"On revision {call.terms.revision.name} a server cannot send {method} to its client")
        pending, chain = call.connection.pending, self.server.middleware
        body = dict(params) if params else {}
        if chain is not None and chain.wraps(method):
            from dovetail.runtime.middleware import pass_out

            return await pass_out(chain, "server", call, pending, method, body, timeout, progress)
        id = pending.next_id()
        if progress is not None:
            body["_meta"] = {**(body.get("_meta") or {}), PROGRESS_TOKEN: id}
        return await pending.request(method, body, Timeouts(timeout), id=id, on_progress=progress, sink=call.sink)


Handle: TypeAlias = "Callable[[Invocation], Awaitable[Value | bytes]]"
"""Runs the handler of a tool, resource or prompt with its arguments bound; its result may be encoded already."""


async def ask_between_runs(asked: InputRequired, make: Callable[[], Invocation], handle: Handle) -> Value | bytes:
    """Ask what a handler returned as `InputRequired` by direct requests, and run it again with the answers."""
    from dovetail.protocol.mrtr import MAX_ROUNDS, too_many_rounds

    for _ in range(MAX_ROUNDS):
        invocation = make()
        invocation.check(asked)
        questions = asked.requests or {}
        answers = await asyncio.gather(*(invocation.ask_directly(question) for question in questions.values()))
        invocation.answers, invocation.request_state = dict(zip(questions, answers, strict=True)), asked.state
        result = await handle(invocation)
        if not isinstance(result, InputRequired):
            return result
        asked = result
    raise too_many_rounds()
