"""Relayed requests: what a server asks goes to the client whose call it serves, and the answer goes back."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from dovetail.client.server_requests import RequestHandlers
from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.errors import (
    INTERNAL_ERROR,
    REJECTED,
    DovetailError,
    MissingCapability,
    ProtocolError,
    Refused,
    RemoteError,
)
from dovetail.server.tasks.task_call import TaskCall
from dovetail.types.base import EmptyParams
from dovetail.types.capabilities import ClientCapabilities, Implementation
from dovetail.types.client_features import (
    CreateMessageParams,
    ElicitParams,
    ElicitRequest,
    InputRequest,
    RootsRequest,
    SamplingRequest,
    method_of,
)

from .clients import known_client

if TYPE_CHECKING:
    from dovetail.protocol.revisions.revision import Revision
    from dovetail.server.invocation import Invocation
    from dovetail.server.session import ServerCall, Session
    from dovetail.transports.base import MessageSink
    from dovetail.types.serialization import Value

NOBODY = "The gateway has no call of a client in progress that this could be asked in"
SEVERAL = "Several calls are in progress on this shared connection, so that it is not known which of them asks"


@runtime_checkable
class Announcer(Protocol):
    """A view of the gateway, which may be one of several replicas."""

    @property
    def has_replicas(self) -> bool:
        """True if other processes may have the streams of its sessions."""
        ...

    def announce_update(self, uri: str, session: str | None = None) -> None:
        """Notify the subscribers of a resource, in all processes, or only the session with an id."""
        ...

    def stream_of(self, session: Session) -> MessageSink | None:
        """The stream of a session, wherever it is; None for a client that is connected to this process."""
        ...


class RelayedRequests(RequestHandlers):
    """The handlers of a connection to a server: they ask the client, in the way of its own revision.

    A server that asks over stdio does not say for which call. The connection belongs to one client, so that its newest
    call is asked; on a shared connection the calls in progress must all be of one client.
    """

    def __init__(self, capabilities: ClientCapabilities, *, shared: bool) -> None:
        super().__init__()
        self._capabilities = capabilities
        self._shared = shared
        self._serving: dict[int, Invocation] = {}
        self.last_call: ServerCall | None = None
        """The latest call of the client, whose session can be asked between calls in the handshake era."""
        self.waiting = 0
        """Questions that wait for a further request of the client, which may take long."""
        self.roots_missed = False
        """The server has asked for roots when nobody could be asked."""

    @contextlib.contextmanager
    def serving(self, invocation: Invocation) -> Generator[None]:
        """A request of this invocation is in progress; that of a task keeps the connection when its session ends."""
        key = id(invocation)
        self._serving[key] = invocation
        self.last_call = invocation.call
        try:
            yield
        finally:
            self._serving.pop(key, None)

    @property
    def serves_tasks(self) -> bool:
        """True if a task is in progress, which may go on without the session that created it."""
        return any(isinstance(one.call, TaskCall) for one in self._serving.values())

    @property
    def newest(self) -> Invocation | None:
        """The invocation that began last."""
        return next(reversed(self._serving.values()), None)

    @property
    def newest_of_one_client(self) -> Invocation | None:
        """The invocation that began last; None if those of several clients are in progress."""
        if self._shared and len(self._serving) > 1:
            clients = {known_client(one.call) for one in self._serving.values()}
            if len(clients) > 1 or None in clients:
                return None
        return self.newest

    def can_handle(self, method: str, revision: Revision) -> bool:
        """True if the client has declared the capability for this request."""
        can = self._capabilities
        if method == "elicitation/create":
            return can.elicitation is not None and revision.form != "absent"
        if method == "sampling/createMessage":
            return can.sampling is not None
        return method == "roots/list" and can.roots is not None

    def can_open_urls(self, revision: Revision) -> bool:
        """False: an error that requires a page is passed on to the client as such."""
        return False

    def check(self, method: str, revision: Revision) -> None:
        """Raise `Refused` for a request that the client has not declared."""
        if not self.can_handle(method, revision):
            raise Refused(f"The client behind the gateway does not support {method}")

    async def handle(
        self, method: str, params: Value | None, revision: Revision, server: Implementation | None
    ) -> Value:
        """The answer of the client; raises `Refused` or `ProtocolError` for the server."""
        self.check(method, revision)
        question = _question(params)
        try:
            return await self._ask(question)
        except MissingCapability as problem:
            raise ProtocolError(INTERNAL_ERROR, str(problem)) from problem
        except RemoteError as problem:
            if problem.code == REJECTED:
                raise Refused(problem.message) from problem
            raise ProtocolError(problem.code, problem.message, problem.data) from problem
        except (ProtocolError, Refused):
            raise
        except DovetailError as problem:
            raise ProtocolError(INTERNAL_ERROR, str(problem)) from problem

    def _is_ambiguous(self, invocation: Invocation) -> bool:
        """True if a question would be asked in one of several calls, and answered by repeating that one."""
        return invocation.suspendable is not None and len(self._serving) > 1

    async def _ask(self, question: InputRequest) -> Any:
        invocation = self.newest_of_one_client
        if self.newest is not None and (invocation is None or self._is_ambiguous(invocation)):
            raise ProtocolError(INTERNAL_ERROR, SEVERAL)
        if invocation is not None and _can_ask(invocation):
            self.waiting += invocation.suspendable is not None
            try:
                return await invocation.ask(question, None)
            finally:
                self.waiting -= invocation.suspendable is not None
        call = self.last_call
        if call is None or self._shared or call.connection is None or call.connection.gone is not None:
            if isinstance(question, RootsRequest):
                self.roots_missed = True
            raise ProtocolError(INTERNAL_ERROR, NOBODY)
        # Between calls only the handshake era can be asked, on the stream of the session.
        revision, params = call.terms.revision, question.params
        body: dict[str, Any] = {} if params is None else revision.emit(params)
        server = call.session.server
        stream = server.stream_of(call.session) if isinstance(server, Announcer) else None
        raw = await call.connection.pending.request(method_of(question), body, Timeouts(None), sink=stream)
        return revision.load_result(method_of(question), raw)


def _can_ask(invocation: Invocation) -> bool:
    """True if a question can be asked within this invocation."""
    return invocation.suspendable is not None or invocation.call.terms.revision.server_requests == "direct"


def _question(params: Value | None) -> InputRequest:
    # A task that the server makes of its question is kept here, and the client answers an ordinary one.
    if isinstance(params, ElicitParams):
        return ElicitRequest(msgspec.structs.replace(params, task=None))
    if isinstance(params, CreateMessageParams):
        return SamplingRequest(msgspec.structs.replace(params, task=None))
    return RootsRequest(params if isinstance(params, EmptyParams) else None)
