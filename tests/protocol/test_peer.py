"""The JSON-RPC peer without I/O: each message leads to one action, judged by what is in flight."""

import pytest

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_REQUEST
from dovetail.protocol.peer import CANCELLED, MAX_NOT_WAITING, PROGRESS, BatchReply, Peer, PeerAction
from dovetail.wire.jsonrpc import Failure, Invalid, Message, Notification, Request, Response


def busy() -> Peer[str, str]:
    """A peer that serves the request 1 and has sent the request 7."""
    peer: Peer[str, str] = Peer(max_in_flight=2)
    peer.incoming[1] = "call 1"
    peer.outgoing[7] = "request 7"
    return peer


@pytest.mark.parametrize(
    ("message", "action"),
    [
        (Request(2, "ping", {}), PeerAction.SERVE),
        (Request("1", "ping", {}), PeerAction.SERVE),
        (Request(1, "ping", {}), PeerAction.REFUSE_DUPLICATE),
        (Response(7, {}), PeerAction.RESOLVE),
        (Failure(7, -1, "no"), PeerAction.FAIL),
        (Notification("notifications/initialized", {}), PeerAction.NOTIFY),
        (Notification(PROGRESS, {"progressToken": 7}), PeerAction.PROGRESS),
        (Notification(CANCELLED, {"requestId": 1}), PeerAction.CANCEL),
        (Notification(CANCELLED, {"requestId": 2}), PeerAction.NOTIFY),
        (Notification(CANCELLED, {"requestId": [1]}), PeerAction.NOTIFY),
        (Notification(CANCELLED, {}), PeerAction.NOTIFY),
        (Invalid(None, INVALID_REQUEST, "no"), PeerAction.REJECT),
        (Invalid(None, INVALID_REQUEST, "no", notification=True), PeerAction.IGNORE),
        (Invalid(7, INVALID_REQUEST, "no result", reply=True), PeerAction.FAIL_UNREADABLE),
        (Invalid(7, INVALID_REQUEST, "no method", bare=True), PeerAction.FAIL_UNREADABLE),
        (Invalid(8, INVALID_REQUEST, "no method", bare=True), PeerAction.REJECT),
    ],
)
def test_every_message_leads_to_one_action(message: Message, action: PeerAction) -> None:
    assert busy().receive(message) is action


def full() -> Peer[str, str]:
    """A peer that serves as many requests as it may, and lets the request 3 wait."""
    peer = busy()
    peer.incoming[2] = "call 2"
    assert peer.receive(Request(3, "tools/call", {})) is PeerAction.WAIT
    assert peer.waiting.add(3, "waiting 3", 100)
    return peer


@pytest.mark.parametrize(
    ("message", "action"),
    [
        (Request(4, "tools/call", {}), PeerAction.WAIT),
        (Request(3, "tools/call", {}), PeerAction.REFUSE_DUPLICATE),
        (Request(2, "tools/call", {}), PeerAction.REFUSE_DUPLICATE),
        (Request(4, "ping", {}), PeerAction.SERVE),
        (Request(4, "initialize", {}), PeerAction.SERVE),
        (Notification(CANCELLED, {"requestId": 3}), PeerAction.DROP),
        (Notification(CANCELLED, {"requestId": 2}), PeerAction.CANCEL),
        (Notification(CANCELLED, {"requestId": "3"}), PeerAction.NOTIFY),
        (Notification(CANCELLED, {"requestId": [3]}), PeerAction.NOTIFY),
        (Response(7, {}), PeerAction.RESOLVE),
    ],
)
def test_only_requests_wait_when_the_bound_is_reached(message: Message, action: PeerAction) -> None:
    assert full().receive(message) is action


def test_a_request_does_not_overtake_those_that_wait() -> None:
    peer = full()
    assert not peer.next_may_start
    del peer.incoming[1]
    assert peer.next_may_start
    assert peer.receive(Request(4, "tools/call", {})) is PeerAction.WAIT
    assert peer.waiting.take() == (3, "waiting 3")
    assert not peer.next_may_start
    assert peer.receive(Request(4, "tools/call", {})) is PeerAction.SERVE


def test_pings_are_served_above_the_bound_up_to_a_bound_of_their_own() -> None:
    peer = full()
    for n in range(MAX_NOT_WAITING):
        assert peer.receive(Request(100 + n, "ping", {})) is PeerAction.SERVE
        peer.incoming[100 + n] = "a ping that middleware delays"
    assert peer.receive(Request(4, "ping", {})) is PeerAction.WAIT


def test_the_refusal_of_a_request_for_which_there_is_no_room_names_the_limits() -> None:
    error = busy().refusal(PeerAction.REFUSE_EXCESS, 3)
    assert error.code == INTERNAL_ERROR
    assert error.message == (
        "Too many requests: 2 are in flight, and those that wait have 16777216 bytes; send more when some are answered"
    )
    assert error.data == {"maxInFlight": 2, "maxWaitingBytes": 16777216}


def test_a_duplicate_is_refused_with_its_id() -> None:
    error = busy().refusal(PeerAction.REFUSE_DUPLICATE, 1)
    assert (error.code, error.message) == (INVALID_REQUEST, "A request with id 1 is in flight already")


def test_a_cancellation_finds_its_call_by_id_and_type() -> None:
    peer = busy()
    assert peer.cancelled({"requestId": 1}) == "call 1"
    assert peer.cancelled({"requestId": "1"}) is None
    assert peer.cancelled({"requestId": True}) is None


def test_ids_are_never_used_twice() -> None:
    peer = busy()
    assert [peer.next_id() for _ in range(3)] == [1, 2, 3]


class TestBatchReply:
    BATCH = (Request(1, "a", {}), Notification("b", {}), Request(2, "c", {}), Invalid(None, INVALID_REQUEST, "no"))

    def test_a_batch_is_complete_when_it_is_sealed_and_every_request_has_ended(self) -> None:
        reply = BatchReply(self.BATCH)
        assert not reply.add(b"1")
        assert not reply.seal()
        assert not reply.add(None)
        assert reply.add(b"3")
        assert reply.encode() == b"[1,3]"

    def test_a_batch_that_ends_while_it_is_read_waits_for_the_seal(self) -> None:
        reply = BatchReply(self.BATCH[:1])
        assert not reply.add(b"1")
        assert reply.seal()

    def test_a_batch_of_notifications_has_no_answer(self) -> None:
        reply = BatchReply(self.BATCH[1:2])
        assert reply.seal()
        assert reply.encode() is None
