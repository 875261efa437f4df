"""JSON-RPC peer without I/O: what has to be done about each message that arrives.

Both sides of a connection are peers: each serves requests of the other and correlates the answers to its own. A `Peer`
holds the two tables of what is in flight and classifies messages by them; whoever drives it keeps calls in `incoming`
and requests in `outgoing`, and does the I/O.

Duplicate ids are refused (basic, "Requests": an id must not be reused within a session). A cancellation of a request
that is unknown or has ended is ignored (cancellation, "Error Handling"). Requests above the bound on requests in flight
wait in a queue (`waiting_queue`).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from dovetail.wire import codec
from dovetail.wire.jsonrpc import Failure, Id, Invalid, Message, Notification, Request, Response

from .errors import INTERNAL_ERROR, INVALID_REQUEST, ProtocolError
from .waiting_queue import WaitingQueue

MAX_IN_FLIGHT = 512
"""Requests served at once on one connection; more wait for their turn."""

MAX_NOT_WAITING = 64
"""Requests above that bound which are served at once, where their method must not wait."""

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"

CallT = TypeVar("CallT")
SentT = TypeVar("SentT")


class PeerAction(enum.Enum):
    """The ways in which a message is handled."""

    SERVE = "serve the request"
    WAIT = "let the request wait for its turn"
    REFUSE_DUPLICATE = "refuse a request whose id is in flight"
    REFUSE_EXCESS = "refuse a request for which the queue has no room"
    CANCEL = "cancel a call of the peer"
    DROP = "drop a request of the peer that waits"
    PROGRESS = "report progress of a request of ours"
    NOTIFY = "hand over a notification"
    RESOLVE = "resolve a request of ours"
    FAIL = "fail a request of ours"
    FAIL_UNREADABLE = "fail a request of ours whose answer cannot be read"
    REJECT = "answer a message that is no valid request with an error"
    IGNORE = "log a notification that is not valid, and answer nothing"


_BY_TYPE: dict[type, PeerAction] = {Response: PeerAction.RESOLVE, Failure: PeerAction.FAIL}
_BY_METHOD = {CANCELLED: PeerAction.CANCEL, PROGRESS: PeerAction.PROGRESS}

_DOES_NOT_WAIT = frozenset({"initialize", "ping"})
"""A peer that is busy is not dead, and what follows a handshake is admitted by its outcome."""


class Peer(Generic[CallT, SentT]):
    """The requests in flight in both directions of one connection."""

    __slots__ = ("_last_id", "id_prefix", "incoming", "max_in_flight", "outgoing", "waiting")

    def __init__(self, max_in_flight: int = MAX_IN_FLIGHT) -> None:
        self.incoming: dict[Id, CallT] = {}
        """Requests of the other side that are being served."""
        self.waiting: WaitingQueue[Any] = WaitingQueue()
        """Requests of the other side that wait to be served."""
        self.outgoing: dict[Id, SentT] = {}
        """Requests of ours that have no answer yet."""
        self.max_in_flight = max_in_flight
        self.id_prefix = ""
        """The beginning of the ids of our requests, where several processes serve the same client."""
        self._last_id = 0

    def next_id(self) -> Id:
        """An id that no request of this connection has had."""
        self._last_id += 1
        return f"{self.id_prefix}{self._last_id}" if self.id_prefix else self._last_id

    def receive(self, message: Message) -> PeerAction:
        """Classify one message; nothing is changed by it."""
        if isinstance(message, Request):
            if message.id in self.incoming:
                return PeerAction.REFUSE_DUPLICATE
            if len(self.incoming) < self.max_in_flight and not self.waiting:
                return PeerAction.SERVE
            return self._receive_excess(message)
        if isinstance(message, Notification):
            action = _BY_METHOD.get(message.method, PeerAction.NOTIFY)
            return self._receive_cancellation(message.params) if action is PeerAction.CANCEL else action
        if isinstance(message, Invalid):
            if message.notification:
                return PeerAction.IGNORE
            ours = message.reply or (message.bare and message.id in self.outgoing)
            return PeerAction.FAIL_UNREADABLE if ours else PeerAction.REJECT
        return _BY_TYPE[type(message)]

    def _receive_excess(self, request: Request) -> PeerAction:
        if request.id in self.waiting:
            return PeerAction.REFUSE_DUPLICATE
        if request.method in _DOES_NOT_WAIT and len(self.incoming) < self.max_in_flight + MAX_NOT_WAITING:
            return PeerAction.SERVE
        return PeerAction.WAIT

    def _receive_cancellation(self, params: dict[str, Any]) -> PeerAction:
        if self.cancelled(params) is not None:
            return PeerAction.CANCEL
        id = params.get("requestId")
        if (type(id) is int or type(id) is str) and id in self.waiting:
            return PeerAction.DROP
        # An extension or a subscription may have use for a cancellation that no call is meant by.
        return PeerAction.NOTIFY

    @property
    def next_may_start(self) -> bool:
        """True if a request waits and there is room to serve it."""
        return bool(self.waiting) and len(self.incoming) < self.max_in_flight

    def cancelled(self, params: dict[str, Any]) -> CallT | None:
        """The call that a cancellation names; None for one that is unknown or has ended."""
        id = params.get("requestId")
        return self.incoming.get(id) if type(id) is int or type(id) is str else None

    def refusal(self, action: PeerAction, id: Id) -> ProtocolError:
        """The error for a request that is not served."""
        if action is PeerAction.REFUSE_DUPLICATE:
            return ProtocolError(INVALID_REQUEST, f"A request with id {id!r} is in flight already")
        limit = self.waiting.max_bytes
        text = f"Too many requests: {self.max_in_flight} are in flight, and those that wait have {limit} bytes"
        data = {"maxInFlight": self.max_in_flight, "maxWaitingBytes": limit}
        return ProtocolError(INTERNAL_ERROR, f"{text}; send more when some are answered", data)


class BatchReply:
    """The answers to a batch, complete when every request of it has ended (2025-03-26, "Batching")."""

    __slots__ = ("_answers", "_missing", "_sealed")

    def __init__(self, messages: Sequence[Message]) -> None:
        self._answers: list[bytes] = []
        self._missing = sum(isinstance(message, Request | Invalid) for message in messages)
        self._sealed = False

    def add(self, answer: bytes | None) -> bool:
        """One request has ended, with an answer or without one; True if that completes the batch."""
        self._missing -= 1
        if answer is not None:
            self._answers.append(answer)
        return self.complete

    def seal(self) -> bool:
        """Every message of the batch has been handed out; True if it is complete already."""
        self._sealed = True
        return self.complete

    @property
    def complete(self) -> bool:
        """True if nothing is missing any more."""
        return self._sealed and self._missing <= 0

    def encode(self) -> bytes | None:
        """The answers as one JSON array; None where nothing was to be answered."""
        return codec.batch(self._answers) if self._answers else None
