"""Messages become exchanges: request and answer, notifications about a request, requests of servers, cancellations."""

import json
from typing import Any, Literal

import pytest

from dovetail.cli.traffic import pairing
from dovetail.cli.traffic.exchange import MAX_RELATED
from dovetail.cli.traffic.pairing import TrafficLog
from dovetail.host.events import TrafficLine

CALL = {"id": 1, "method": "tools/call", "params": {"name": "add", "_meta": {"progressToken": "t"}}}


def line(
    direction: Literal["sent", "received"], content: Any, at: float = 0.0, server: str = "desk", cut: int | None = None
) -> TrafficLine:
    """A message between the host and a server, as the host keeps it."""
    message = json.dumps(content).encode() if not isinstance(content, bytes) else content
    tail = message[-200:] if cut is not None else b""
    return TrafficLine(at=at, server=server, direction=direction, message=message[:cut], size=len(message), tail=tail)


def sent(content: Any, at: float = 0.0, **options: Any) -> TrafficLine:
    return line("sent", content, at, **options)


def received(content: Any, at: float = 0.0, **options: Any) -> TrafficLine:
    return line("received", content, at, **options)


def test_a_request_and_its_answer_are_one_exchange() -> None:
    log = TrafficLog([sent(CALL, 10.0)])
    [exchange] = log.all()
    assert (exchange.number, exchange.method, exchange.subject, exchange.outcome) == (1, "tools/call", "add", "waiting")
    assert exchange.seconds is None and not exchange.from_server
    answer = received({"id": 1, "result": {"content": []}}, 10.25)
    assert log.add(answer) == [exchange]
    assert (exchange.outcome, exchange.seconds, exchange.answer) == ("ok", 0.25, answer)
    assert exchange.bytes == exchange.request.size + answer.size


@pytest.mark.parametrize(
    ("answer", "outcome", "error"),
    [
        ({"result": {}}, "ok", ""),
        ({"error": {"code": -32602, "message": "no such tool"}}, "error", "no such tool"),
        ({"result": {"isError": True, "content": [{"type": "text", "text": "broken"}]}}, "tool error", "broken"),
        ({"result": {"resultType": "input_required"}}, "input required", ""),
    ],
)
def test_an_answer_decides_the_outcome(answer: dict[str, Any], outcome: str, error: str) -> None:
    log = TrafficLog([sent(CALL), received({"id": 1, **answer})])
    assert [(each.outcome, each.error) for each in log.all()] == [(outcome, error)]


def test_answers_find_their_requests_by_server_direction_and_id() -> None:
    log = TrafficLog(
        [
            sent({"id": 1, "method": "ping"}),
            sent({"id": 1, "method": "tools/list"}, server="other"),
            received({"id": 1, "method": "roots/list"}),
            received({"id": 1, "error": {"message": "ours"}}),
            sent({"id": 1, "result": {"roots": []}}),
            received({"id": "1", "result": {}}),
        ]
    )
    assert [(each.server, each.method, each.from_server, each.outcome) for each in log.all()] == [
        ("desk", "ping", False, "error"),
        ("other", "tools/list", False, "waiting"),
        ("desk", "roots/list", True, "ok"),
        ("desk", "", True, "notification"),
    ]


def test_progress_belongs_to_its_request_and_other_notifications_stand_alone() -> None:
    progress = {"method": "notifications/progress", "params": {"progressToken": "t", "progress": 1}}
    log = TrafficLog([sent(CALL), received(progress), received({"method": "notifications/tools/list_changed"})])
    call, change = log.all()
    assert call.related_count == 1 and change.outcome == "notification"
    for _ in range(MAX_RELATED):
        log.add(received(progress))
    assert (len(call.related), call.related_count) == (MAX_RELATED, MAX_RELATED + 1)
    unknown = {"method": "notifications/progress", "params": {"progressToken": "other"}}
    assert log.add(received(unknown))[0].outcome == "notification"


def test_events_of_a_subscription_belong_to_the_request_that_opened_it() -> None:
    meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": 7}}
    log = TrafficLog([sent({"id": 7, "method": "subscriptions/listen"})])
    log.add(received({"method": "notifications/tools/list_changed", "params": meta}))
    assert [each.related_count for each in log.all()] == [1]


def test_a_cancelled_request_stays_cancelled_when_an_answer_comes_late() -> None:
    cancel = {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "the user stopped it"}}
    log = TrafficLog([sent(CALL), sent(cancel)])
    [call] = log.all()
    assert (call.outcome, call.error, call.failed) == ("cancelled", "the user stopped it", True)
    log.add(received({"id": 1, "result": {}}, 2.0))
    assert (call.outcome, call.seconds) == ("cancelled", 2.0)


def test_a_request_whose_id_is_used_again_had_no_answer() -> None:
    log = TrafficLog([sent(CALL), sent(CALL), received({"id": 1, "result": {}})])
    assert [each.outcome for each in log.all()] == ["no answer", "ok"]


def test_a_batch_is_several_messages() -> None:
    log = TrafficLog([sent([{"id": 1, "method": "ping"}, {"id": 2, "method": "ping"}])])
    log.add(received([{"id": 2, "result": {}}, {"id": 1, "result": {}}]))
    assert [each.outcome for each in log.all()] == ["ok", "ok"]


@pytest.mark.parametrize(
    "names", [("jsonrpc", "id", "result"), ("id", "result", "jsonrpc"), ("result", "jsonrpc", "id")]
)
def test_an_answer_that_was_cut_off_is_known_by_its_id(names: tuple[str, ...]) -> None:
    whole = {"jsonrpc": "2.0", "id": 1, "result": {"text": '"method": "x"' * 1000}}
    log = TrafficLog([sent(CALL), received({name: whole[name] for name in names}, cut=500)])
    assert [each.outcome for each in log.all()] == ["ok"]


def test_a_request_that_was_cut_off_is_known_by_its_method() -> None:
    long = {"id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"text": "x" * 2000}}}
    [exchange] = TrafficLog([sent(long, cut=300)]).all()
    assert (exchange.method, exchange.outcome) == ("tools/call", "waiting")


@pytest.mark.parametrize("message", [b"", b"not json", b"[]", b"1", b'"x"', b"[1, 2]", b'{"id": {}}', b"{" * 5000])
def test_messages_that_are_none_do_no_harm(message: bytes) -> None:
    log = TrafficLog([received(message), sent(CALL), received({"id": 1, "result": {}})])
    assert log.all()[-1].outcome == "ok"


def test_old_exchanges_are_dropped_and_numbers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "MAX_EXCHANGES", 2)
    log = TrafficLog(sent({"id": number, "method": "ping"}) for number in range(5))
    assert [each.number for each in log.all()] == [4, 5]
    assert log.find(3) is None and log.find(6) is None and log.find(0) is None
    found = log.find(5)
    assert found is not None and found.number == 5
    assert log.add(received({"id": 0, "result": {}}))[0].method == ""


def test_the_bytes_of_kept_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "MAX_KEPT_BYTES", 1000)
    log = TrafficLog(sent({"id": number, "method": "ping", "params": {"x": "y" * 300}}) for number in range(9))
    assert 1 <= len(log.all()) <= 3
