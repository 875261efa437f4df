"""Middleware: functions around every request of a server or a client, whichever side sends it.

    async def timed(exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        began = perf_counter()
        try:
            return await proceed(exchange)
        finally:
            print(exchange.method, perf_counter() - began)

    server.use(timed)                       Server("name", middleware=[timed])
    client.use(timed, methods=["tools/call"])   Client(target, middleware=[timed])

The first one given is the outermost. Params and results are plain JSON objects as they are on this
revision's wire, `_meta` included; a middleware may change them, give a result without proceeding, or proceed
more than once. It runs once a JSON-RPC request: a call that is answered in rounds passes once a round.
Notifications do not pass.

What `proceed` raises: where a request came in, `ProtocolError` is the error that the peer will get, and
anything else becomes −32603; where one went out, `RemoteError`, `Timeout`, `ConnectionLost` and the like.

Requests on their way through middleware: those that come in on a connection, and those that go out on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.envelope import PROGRESS_TOKEN
from dovetail.protocol.errors import InvalidAnswer, LocalError
from dovetail.protocol.revisions.revision import Revision
from dovetail.storage.contract import Store
from dovetail.types.capabilities import Implementation
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Id, Request

from .call import Call
from .pending_requests import OnProgress, PendingRequests
from .serve import CallT, Outcome, Work

Role: TypeAlias = Literal["client", "server"]
Proceed: TypeAlias = "Callable[[Exchange], Awaitable[dict[str, Any]]]"
Middleware: TypeAlias = "Callable[[Exchange, Proceed], Awaitable[dict[str, Any]]]"

_TARGETS = ("name", "uri")


class Exchange:
    """One request on its way, and all that is known of it."""

    __slots__ = (
        "client_key",
        "id",
        "method",
        "notes",
        "params",
        "peer",
        "principal",
        "problem",
        "revision",
        "role",
        "way",
    )

    def __init__(
        self,
        role: Role,
        way: Literal["in", "out"],
        method: str,
        params: dict[str, Any],
        revision: Revision,
        *,
        id: Id | None = None,
        peer: Implementation | None = None,
        principal: str | None = None,
        client_key: Hashable = None,
    ) -> None:
        self.role: Role = role
        """The side that runs this middleware: server or client."""
        self.way: Literal["in", "out"] = way
        """Direction: "in" for a request that arrived, "out" for one that is sent."""
        self.method = method
        self.params = params
        self.revision = revision
        self.id = id
        """The JSON-RPC id; of a request that goes out, the one it was sent with last, once it was."""
        self.peer = peer
        """The name and version that the peer gave itself; not verified."""
        self.principal = principal
        """On whose behalf a request came in, where the transport knows."""
        self.client_key = client_key
        """The key by which a server counts the client of a request: its principal, over HTTP without
        authentication its address; None if neither is known."""
        self.problem: BaseException | None = None
        """The unexpected exception of a handler, where the result or error sent to the peer only describes it."""
        self.notes: dict[str, Any] = {}
        """For middleware to leave notes in."""

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the request, to read and to write; it comes into being when it is asked for."""
        present = self.params.get("_meta")
        if isinstance(present, dict):
            return cast("dict[str, Any]", present)
        meta: dict[str, Any] = {}
        self.params = {**self.params, "_meta": meta}
        return meta

    @property
    def target(self) -> str | None:
        """The tool or prompt that it names, or the resource's URI."""
        for field in _TARGETS:
            named = self.params.get(field)
            if isinstance(named, str):
                return named
        return None


@runtime_checkable
class StoreMiddleware(Protocol):
    """Middleware that uses the store which the processes of a server share."""

    def use_store(self, store: Store, name: str) -> None:
        """Use a store from now on; `name` is the same for this middleware in all processes, and another for others."""
        ...


class Chain:
    """Middleware in order, each for every request or for some methods."""

    def __init__(self, middleware: Iterable[Middleware] = ()) -> None:
        self._all: list[tuple[Middleware, frozenset[str] | None, int]] = []
        """From the outermost inwards: each with its methods, and the number of those that were added before it."""
        self._by_method: dict[str, tuple[Middleware, ...]] = {}
        self._store: tuple[Store, str] | None = None
        for one in middleware:
            self.add(one)

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, middleware: Middleware, methods: Iterable[str] | None = None, *, outermost: bool = False) -> None:
        """Put one inside of those there are, or around them."""
        number = len(self._all)
        self._all.insert(
            0 if outermost else number, (middleware, None if methods is None else frozenset(methods), number)
        )
        self._by_method = {}
        if self._store is not None:
            _give_store(middleware, number, *self._store)

    def use_store(self, store: Store, name: str) -> None:
        """Let the middleware use a store that the processes of the server called `name` share."""
        self._store = store, name
        for middleware, _, number in self._all:
            _give_store(middleware, number, store, name)

    def wraps(self, method: str) -> bool:
        """True if any middleware wraps requests of this method."""
        return bool(self._all) and bool(self._for_method(method))

    async def run(self, exchange: Exchange, last: Proceed) -> dict[str, Any]:
        """Pass a request through to `last`, and its result back."""
        return await _step(self._for_method(exchange.method), 0, last)(exchange)

    def _for_method(self, method: str) -> tuple[Middleware, ...]:
        selected = self._by_method.get(method)
        if selected is None:
            selected = tuple(one for one, methods, _ in self._all if methods is None or method in methods)
            if len(self._by_method) < _MOST_METHODS:
                self._by_method[method] = selected
        return selected


def _give_store(middleware: Middleware, number: int, store: Store, name: str) -> None:
    if isinstance(middleware, StoreMiddleware):
        middleware.use_store(store, f"{name}:{number}")


def refuse_other_method(exchange: Exchange, method: str) -> None:
    """A middleware may change a request's params, not make another request of it."""
    if exchange.method != method:
        raise LocalError(f"Middleware made {exchange.method} of {method}; it may change only the params")


def as_object(method: str, result: Any) -> dict[str, Any]:
    """The result of a request that went out; every result of MCP is an object."""
    if not isinstance(result, dict):
        raise InvalidAnswer(f"Invalid result of {method}: it is not an object")
    return cast("dict[str, Any]", result)


_MOST_METHODS = 256
"""Methods remembered: a peer may make up any number of names."""


def _step(links: tuple[Middleware, ...], place: int, last: Proceed) -> Proceed:
    if place == len(links):
        return last

    async def proceed(exchange: Exchange) -> dict[str, Any]:
        return await links[place](exchange, _step(links, place + 1, last))

    return proceed


_decode = msgspec.json.Decoder(dict[str, Any]).decode


def pass_in(
    chain: Chain,
    role: Role,
    peer: Implementation | None,
    call: CallT,
    dispatch: Callable[[CallT], Outcome],
    *,
    answer: Outcome = None,
) -> Work:
    """The work that takes a request through the chain to whoever serves it, and its result back.

    A request that had to be dispatched at once, because others depend on it, brings what came of that along.
    """
    request, terms = call.request, call.terms

    async def last(exchange: Exchange) -> dict[str, Any]:
        refuse_other_method(exchange, request.method)
        if answer is not None:
            return _decode(answer if isinstance(answer, bytes) else await answer())
        call.request = Request(request.id, request.method, exchange.params)
        call.problem = None
        try:
            outcome = dispatch(call)
            assert outcome is not None  # whoever may not answer is not wrapped
            encoded = outcome if isinstance(outcome, bytes) else await outcome()
        finally:
            exchange.problem = call.problem
        return _decode(encoded)

    async def work() -> bytes:
        exchange = Exchange(
            role,
            "in",
            request.method,
            dict(request.params),
            terms.revision,
            id=request.id,
            peer=peer,
            principal=terms.principal,
            client_key=call.client_key,
        )
        return codec.encode(await chain.run(exchange, last))

    return work


async def pass_out(
    chain: Chain,
    role: Role,
    call: Call,
    pending: PendingRequests,
    method: str,
    params: dict[str, Any],
    timeout: float | None,
    progress: OnProgress | None,
) -> dict[str, Any]:
    """Send the peer a request, while one of its own is being served, through the chain."""
    terms = call.terms

    async def last(exchange: Exchange) -> dict[str, Any]:
        refuse_other_method(exchange, method)
        id = exchange.id = pending.next_id()
        body = exchange.params
        if progress is not None:
            body = {**body, "_meta": {**exchange.meta, PROGRESS_TOKEN: id}}
        raw = await pending.request(method, body, Timeouts(timeout), id=id, on_progress=progress, sink=call.sink)
        return as_object(method, raw)

    exchange = Exchange(
        role,
        "out",
        method,
        params,
        terms.revision,
        peer=terms.client,
        principal=terms.principal,
        client_key=call.client_key,
    )
    return await chain.run(exchange, last)
