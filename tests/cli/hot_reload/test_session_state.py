"""What a client and the process that replaces its server are told."""

from typing import Any

from dovetail.cli.hot_reload.session_state import ReloadedSession
from tests.support.raw import ENVELOPE_META

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "x"}}
CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {}, "resources": {"listChanged": True}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def result(id: Any, **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def greeted() -> ReloadedSession:
    continuity = ReloadedSession()
    continuity.from_client(INITIALIZE)
    continuity.from_server(result(1, capabilities=CAPABILITIES))
    continuity.from_client(INITIALIZED)
    return continuity


def test_messages_pass_untouched() -> None:
    continuity = ReloadedSession()
    for message in (INITIALIZE, INITIALIZED, request("a", "tools/list"), result(5), {"jsonrpc": "2.0"}):
        assert continuity.from_client(message) is message
    for message in (result(1), result("a"), {"jsonrpc": "2.0", "method": "notifications/message"}):
        assert continuity.from_server(message) is message


def test_a_new_process_hears_the_handshake_again_and_the_client_does_not() -> None:
    continuity = greeted()
    first, second = continuity.replay_messages()
    assert second is INITIALIZED
    assert {**first, "id": 1} == INITIALIZE
    assert continuity.from_server(result(first["id"])) is None
    assert [message["method"] for message in continuity.change_notifications()] == [
        "notifications/tools/list_changed",
        "notifications/resources/list_changed",
    ]


def test_a_handshake_that_failed_is_not_repeated() -> None:
    continuity = ReloadedSession()
    continuity.from_client(INITIALIZE)
    continuity.from_server({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}})
    assert continuity.replay_messages() == [] and continuity.change_notifications() == []


def test_level_and_subscriptions_are_repeated() -> None:
    continuity = greeted()
    for id, (method, params) in enumerate(
        [
            ("logging/setLevel", {"level": "info"}),
            ("logging/setLevel", {"level": "error"}),
            ("resources/subscribe", {"uri": "a:1"}),
            ("resources/subscribe", {"uri": "a:2"}),
            ("resources/unsubscribe", {"uri": "a:1"}),
        ]
    ):
        continuity.from_client(request(id, method, **params))
        continuity.from_server(result(id))
    repeated = continuity.replay_messages()[2:]
    assert [message["params"] for message in repeated] == [{"level": "error"}, {"uri": "a:2"}]
    assert all(continuity.from_server(result(message["id"])) is None for message in repeated)


def test_pending_requests_get_an_error_when_a_process_exits() -> None:
    continuity = greeted()
    continuity.from_client(request(5, "tools/call"))
    continuity.from_client(request("5", "tools/call"))
    continuity.from_client(request(6, "tools/call"))
    continuity.from_client({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}})
    continuity.from_server(result("5"))
    assert continuity.has_pending
    [told] = continuity.process_exited("gone")
    assert (told["id"], told["error"]) == (5, {"code": -32603, "message": "gone"})
    assert not continuity.has_pending and continuity.process_exited("gone") == []


def test_an_answer_for_the_old_process_does_not_reach_the_new_one() -> None:
    continuity = greeted()
    first = continuity.from_server(request(1, "elicitation/create"))
    assert first is not None
    [told] = continuity.process_exited("gone")
    assert told["method"] == "notifications/cancelled" and told["params"]["requestId"] == first["id"]
    second = continuity.from_server(request(1, "elicitation/create"))
    assert second is not None and second["id"] != first["id"]
    assert continuity.from_client(result(first["id"])) is None
    assert continuity.from_client(result(second["id"])) == result(1)
    assert continuity.from_client(result(second["id"])) is None


def test_a_question_taken_back_is_named_as_the_client_knows_it() -> None:
    continuity = greeted()
    asked = continuity.from_server(request(1, "elicitation/create"))
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    told = continuity.from_server(cancelled)
    assert asked is not None and told is not None
    assert told["params"]["requestId"] == asked["id"]
    other = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
    assert continuity.from_server(other) is other


def test_a_subscription_goes_on_without_a_second_acknowledgement() -> None:
    continuity = ReloadedSession()
    listen = request("l", "subscriptions/listen", notifications={"promptsListChanged": True}, _meta=ENVELOPE_META)
    meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": "l"}}
    acknowledged = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": meta}
    continuity.from_client(listen)
    assert continuity.from_server(acknowledged) is acknowledged
    assert not continuity.has_pending and continuity.process_exited("gone") == []
    assert continuity.replay_messages() == [listen]
    assert continuity.from_server(acknowledged) is None
    assert continuity.from_server(acknowledged) is acknowledged
    assert continuity.change_notifications() == [
        {"jsonrpc": "2.0", "method": "notifications/prompts/list_changed", "params": meta},
    ]


def test_only_requests_are_refused() -> None:
    continuity = ReloadedSession()
    assert continuity.error_response(INITIALIZED, "down") is None
    assert continuity.error_response(result(1), "down") is None
    refusal = continuity.error_response(request(7, "tools/list"), "down")
    assert refusal is not None and refusal["id"] == 7 and refusal["error"]["message"] == "down"
