"""What a handler can do besides returning: report progress, know who asks, and ask back."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

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
from dovetail.runtime.call import Call
from dovetail.runtime.pending_requests import OnProgress
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.types.client_features import (
    CreateMessageResult,
    ElicitResult,
    InputRequest,
    InputRequired,
    ListRootsResult,
    Root,
    method_of,
)
from dovetail.types.serialization import Value
from dovetail.wire.jsonrpc import Id

if TYPE_CHECKING:
    from dovetail.protocol.mrtr import Journal
    from dovetail.server.features.logging import Log
    from dovetail.server.mrtr.client_requests import Answer, Prompt, Questions, SampleOptions
    from dovetail.server.mrtr.suspendable_call import Interview

    from .app import Server


class Context:
    """The request a handler serves; declare a parameter of this type to get it."""

    __slots__ = ("_call", "_interview", "_journal", "_questions", "answers", "server", "state")

    def __init__(self, server: Server, call: Call) -> None:
        self.server = server
        self._call = call
        self._interview: Interview | None = None
        self._journal: Journal | None = None
        self._questions: Questions | None = None
        self.answers: Mapping[str, Any] = {}
        """What the client answered to an `InputRequired` that the handler returned."""
        self.state: str | None = None
        """The state that went with that `InputRequired`."""

    @property
    def request_id(self) -> Id:
        """The JSON-RPC id of the request."""
        return self._call.request.id

    @property
    def revision(self) -> str:
        """The protocol revision that the request is served under."""
        return self._call.terms.revision.name

    @property
    def client(self) -> Implementation | None:
        """Who the client says it is; not verified, so nothing to decide by."""
        return self._call.terms.client

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """What the client declared that it can do."""
        return self._call.terms.capabilities

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` that came with the request."""
        return self._call.request.params.get("_meta") or {}

    @property
    def principal(self) -> str | None:
        """Who is asking, where the transport has made sure of it; nobody over stdio."""
        return self._call.terms.principal

    @property
    def scopes(self) -> frozenset[str] | None:
        """What the token of the request allows; None where there are no tokens, as over stdio."""
        return self._call.terms.scopes

    @property
    def log(self) -> Log:
        """Messages to the client: `await ctx.log.info("booking", city=city)`."""
        from dovetail.server.features.logging import Log

        return Log(lambda: self._call, self.server.info.name)

    @property
    def lifespan(self) -> Any:
        """What the server's lifespan yielded."""
        return self.server.lifespan_state

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the work is; it reaches the client only if it asked for it."""
        await self._call.progress(progress, total, message)

    @property
    def ask(self) -> Questions:
        """Questions as values, for a handler that returns `InputRequired` itself."""
        if self._questions is None:
            from dovetail.server.mrtr.client_requests import Questions

            terms, mute = self._call.terms, self._call.outlet.mute
            if mute is not None and terms.revision.server_requests == "direct":
                raise LocalError(f"The client cannot be asked: {mute}")
            self._questions = Questions(terms.revision, terms.capabilities)
        return self._questions

    async def elicit(
        self, message: str, form: type | dict[str, Any] | None = None, *, key: str | None = None
    ) -> Answer:
        """Ask the user to fill in a form made from a type, or from a schema; without one, for consent only."""
        from dovetail.server.mrtr.client_requests import answer_of
        from dovetail.server.mrtr.forms import form_for

        result = await self._ask(self.ask.elicit(message, form), key)
        assert isinstance(result, ElicitResult)
        return answer_of(result, form_for(form))

    async def elicit_url(self, message: str, url: str, *, id: str | None = None, key: str | None = None) -> Answer:
        """Ask the user to open a page, for what must not pass through the client, such as a password.

        An accepted answer says that the user agreed to go there, not what came of it. Where the revision names
        such visits, the answer's `id` is for `elicitation_complete`; a page that has to know it gets one by `id`.
        """
        from dovetail.server.features.url_elicitation import begin_visit
        from dovetail.server.mrtr.client_requests import answer_of

        question = self.ask.elicit_url(message, url, id)
        visit = begin_visit(question.params, self.server, self._call)
        result = await self._ask(question, key)
        assert isinstance(result, ElicitResult)
        return answer_of(result, None, visit)

    def elicitation_complete(self, id: str | None) -> None:
        """Tell the client that the user is done at a page, where the revision lets a server say so."""
        self.server.notify_elicitation_complete(id)

    async def sample(
        self, prompt: Prompt, *, max_tokens: int, key: str | None = None, **options: Unpack[SampleOptions]
    ) -> CreateMessageResult:
        """Ask the client's model."""
        result = await self._ask(self.ask.sample(prompt, max_tokens=max_tokens, **options), key)
        assert isinstance(result, CreateMessageResult)
        return result

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """Ask where the server may work."""
        result = await self._ask(self.ask.roots(), key)
        assert isinstance(result, ListRootsResult)
        return result.roots

    async def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Do something that has an effect or varies, once over all rounds of a call.

        The result is what JSON makes of what the function returns; a failure raises `StepFailed`, also when
        it happened in an earlier round.
        """
        from dovetail.server.mrtr.steps import outcome_of, take_step, work_of

        work = work_of(self, self.server.workers, functools.partial(function, *args, **kwargs))
        if self._interview is not None:
            return await self._interview.step(name, work)
        return outcome_of(name, *await take_step(work, name))

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = 30,
        progress: OnProgress | None = None,
    ) -> Any:
        """Send the client a request and get the bare result; for methods of extensions, and for ping.

        Only on revisions where servers may ask directly (2026-07-28 stdio, "Receiving Messages").
        """
        if self._call.terms.revision.server_requests != "direct":
            raise LocalError(f"On revision {self.revision} a server cannot send {method} to its client")
        from .session import session_of

        pending, chain = self._call.connection.pending, session_of(self._call).middleware
        body = dict(params) if params else {}
        if chain is not None and chain.wraps(method):
            from dovetail.runtime.middleware import pass_out

            return await pass_out(chain, "server", self._call, method, body, timeout, progress)
        id = pending.next_id()
        if progress is not None:
            body["_meta"] = {**(body.get("_meta") or {}), PROGRESS_TOKEN: id}
        return await pending.request(
            method, body, Timeouts(timeout), id=id, on_progress=progress, outlet=self._call.outlet
        )

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send the client a notification; for methods of extensions."""
        if not self._call.silent:
            self._call.notify(method, dict(params) if params is not None else None)

    def close_stream(self, retry: float = 1.0) -> None:
        """Close the connection that the client waits on, and have it come back for the rest after `retry` seconds.

        For long work over HTTP where the revision has polling (2025-11-25, "Sending Messages"); elsewhere nothing
        happens.
        """
        if self._call.terms.revision.sse_polling:
            self._call.outlet.let_go(retry)

    def failed(self, problem: BaseException) -> None:
        """Keep what the handler raised for middleware: the client gets words about it."""
        self._call.problem = problem

    def serve_for(self, home: Server) -> None:
        """Serve for a server that is mounted in the one that was asked."""
        self.server = home

    def attach(self, interview: Interview) -> None:
        """Let questions go through an interview, which tells of each request that takes the call up again."""
        self._interview = interview
        interview.follow = self._follow

    def _follow(self, call: Call) -> None:
        self._call = call
        self._questions = None  # each request says anew what its client can do

    def check(self, asked: InputRequired) -> None:
        """Refuse questions that a handler returned and that the client has not declared it can answer."""
        try:
            self.ask.check(asked)
        except MissingCapability as problem:
            if self._call.terms.revision.server_requests == "rounds":
                raise problem.as_protocol_error() from problem
            raise ProtocolError(INTERNAL_ERROR, str(problem)) from problem

    async def put(self, question: InputRequest) -> Any:
        """Ask a question directly, where the revision lets a server do so."""
        revision, method, params = self._call.terms.revision, method_of(question), question.params
        try:
            raw = await self.request(method, None if params is None else revision.emit(params), timeout=None)
        except RemoteError as problem:
            if problem.code == REJECTED:
                raise Refused(problem.message) from problem
            raise
        try:
            return revision.load_result(method, raw)
        except RemoteError as problem:
            raise InvalidAnswer(problem.message) from None

    async def _ask(self, question: InputRequest, key: str | None) -> Any:
        from dovetail.server.mrtr.steps import refuse_within_step

        refuse_within_step(self, method_of(question))
        if self._interview is not None:
            return await self._interview.ask(question, key)
        if key is not None:
            from dovetail.protocol.mrtr import Journal

            self._journal = self._journal or Journal()
            self._journal.key("", key)
        return await self.put(question)


async def ask_directly(
    asked: InputRequired, make: Callable[[], Context], run: Callable[[Context], Awaitable[Value]]
) -> Value:
    """Put the questions that a handler returned, where a revision lets a server ask, and run it again."""
    from dovetail.protocol.mrtr import MAX_ROUNDS, too_many_rounds

    for _ in range(MAX_ROUNDS):
        context = make()
        context.check(asked)
        questions = asked.requests or {}
        answers = await asyncio.gather(*(context.put(question) for question in questions.values()))
        context.answers, context.state = dict(zip(questions, answers, strict=True)), asked.state
        result = await run(context)
        if not isinstance(result, InputRequired):
            return result
        asked = result
    raise too_many_rounds()
