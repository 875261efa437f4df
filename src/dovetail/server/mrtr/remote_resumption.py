"""Resuming a suspended call at the replica where it waits, with a retry that has reached another replica.

The replica that got the retry has checked its state. It sends the request on; what the handler sends back, progress and
log messages as well as the result, goes to the client over the connection that the retry came on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from dovetail.protocol.envelope import EnvelopeReader, meta_of
from dovetail.protocol.errors import ProtocolError
from dovetail.protocol.mrtr import MAX_STATE_SECONDS
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.seal import invalid_state
from dovetail.protocol.terms import Terms
from dovetail.server.replicas.remote_calls import AlreadyClaimed, Offer, RemoteCalls, serving_for_another
from dovetail.server.request_headers import CREDENTIALS
from dovetail.server.session import ServerCall, Session
from dovetail.transports.base import MessageSink
from dovetail.types.serialization import Value
from dovetail.wire.jsonrpc import Id, Request

KIND = "resume"


class ResumingServer(Protocol):
    """The parts of a server that resuming a call for another replica uses."""

    @property
    def served(self) -> Mapping[str, Revision]: ...
    def encode_result(self, call: ServerCall, value: Value) -> bytes: ...


class ResumableCall(Protocol):
    """A suspended call that waits in this process, taken out of the others."""

    @property
    def session(self) -> Session:
        """The client of the call."""
        ...

    async def resume(self, call: ServerCall) -> Value | bytes:
        """Go on with another request, which has brought answers."""
        ...

    def cancel(self) -> None:
        """Cancel the handler."""
        ...


Take: TypeAlias = "Callable[[str, str | None], ResumableCall | None]"
"""Takes out the call that waits under the id of its state, if it is that of a principal."""


class Retry(msgspec.Struct, array_like=True, frozen=True):
    """A request that has brought answers for a suspended call."""

    state_id: str
    id: Id
    method: str
    params: bytes
    """JSON, without the state: the replica where the call waits has what it holds."""
    principal: str | None
    scopes: frozenset[str] | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Retry).decode


class RemoteResumption:
    """Sends retries to the replicas where their calls wait, and resumes the calls that wait here."""

    def __init__(self, remote_calls: RemoteCalls, server: ResumingServer, take: Take) -> None:
        self._remote_calls = remote_calls
        self._server = server
        self._take = take
        self._envelope = EnvelopeReader(server.served)
        remote_calls.serve(KIND, self._prepare)

    @property
    def replica_id(self) -> str:
        """The id of this replica."""
        return self._remote_calls.replica.id

    async def resume(self, replica: str, claim: str, state_id: str, call: ServerCall) -> bytes | None:
        """The result of a call that waits at another replica; None if it has to be served here after all.

        −32602 if another request has used the state.
        """
        request, terms = call.request, call.terms
        params = {name: value for name, value in request.params.items() if name != "requestState"}
        retry = Retry(state_id, request.id, request.method, msgspec.json.encode(params), terms.principal, terms.scopes)
        given: Mapping[bytes, bytes] = getattr(call.sink, "request_headers", None) or {}
        headers = {name: value for name, value in given.items() if name not in CREDENTIALS}
        offer = Offer(KIND, claim, MAX_STATE_SECONDS, _encode(retry), headers)
        try:
            return await self._remote_calls.call(replica, offer, call.sink)
        except AlreadyClaimed:
            raise invalid_state() from None

    def _prepare(self, body: bytes) -> _PreparedResumption | None:
        try:
            retry = _decode(body)
            params: dict[str, Any] = msgspec.json.decode(retry.params, type=dict[str, Any])
            terms = self._envelope.terms(meta_of(params) or {}, None, retry.principal, retry.scopes)
        except (msgspec.DecodeError, ProtocolError):
            return None  # a replica of another version sent it: it runs the call from its journal
        waiting = self._take(retry.state_id, retry.principal)
        if waiting is None:
            return None
        return _PreparedResumption(self._server, waiting, Request(retry.id, retry.method, params), terms)


class _PreparedResumption:
    """A suspended call, and the retry that it goes on with."""

    def __init__(self, server: ResumingServer, waiting: ResumableCall, request: Request, terms: Terms) -> None:
        self._server = server
        self._waiting = waiting
        self._request = request
        self._terms = terms

    async def run(self, sink: MessageSink) -> bytes:
        """Resume the call until it has a result or asks again."""
        call = ServerCall(self._request, self._terms, sink, None, self._waiting.session)
        with serving_for_another(call):
            result = await self._waiting.resume(call)
            return result if isinstance(result, bytes) else self._server.encode_result(call, result)

    def cancel(self) -> None:
        """Cancel the handler: another replica runs it."""
        self._waiting.cancel()
