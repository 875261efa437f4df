"""A handler that raises, blocks, prints or floods hurts only its own call."""

from typing import Any

import pytest

from dovetail.protocol.peer import MAX_IN_FLIGHT
from tests.faults.conftest import NASTY
from tests.support.raw import ENVELOPE, HANDSHAKE, RawServer, eventually

RAISED = [
    "BaseException",
    "SystemExit",
    "KeyboardInterrupt",
    "CancelledError",
    "GeneratorExit",
    "StopIteration",
    "RecursionError",
]


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("tool", ["raise_in_async", "raise_in_sync"])
def test_whatever_a_tool_raises_is_an_error_result(still_working_server: RawServer, tool: str, kind: str) -> None:
    result = still_working_server.call(tool, kind=kind)
    assert result["isError"] is True
    text = result["content"][0]["text"]
    assert kind in text or "cancelled by its own code" in text
    assert "Traceback" not in text and ".py" not in text


@pytest.mark.parametrize("kind", RAISED)
def test_whatever_a_resource_or_prompt_raises_is_an_internal_error(still_working_server: RawServer, kind: str) -> None:
    reading = still_working_server.ask("resources/read", {"uri": f"nasty://{kind}"})
    prompting = still_working_server.ask("prompts/get", {"name": "raise_in_prompt", "arguments": {"kind": kind}})
    for answer in (reading, prompting):
        assert answer["error"]["code"] == -32603
        assert "Traceback" not in answer["error"]["message"]


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt"])
def test_what_was_raised_is_in_the_log_with_its_traceback(fresh_server: RawServer, kind: str) -> None:
    fresh_server.call("raise_in_async", kind=kind)
    eventually(lambda: f"{kind}: from the handler" in fresh_server.stderr, "the log on stderr")
    assert "nasty.py" in fresh_server.stderr


def test_a_tool_that_cancels_its_own_task_is_answered(still_working_server: RawServer) -> None:
    result = still_working_server.call("cancel_itself")
    assert result["isError"] is True
    assert "cancelled by its own code" in result["content"][0]["text"]


def test_a_tool_that_cancels_its_own_task_too_late_is_answered_with_its_result(still_working_server: RawServer) -> None:
    for ballast in (0, 5_000_000):
        result = still_working_server.call("cancel_itself_and_return", ballast=ballast)
        assert result["content"][0]["text"] == "done", "also when the answer has to wait for the reader"


@pytest.mark.parametrize("tool", ["bad_text", "unprintable_error"])
def test_a_result_or_error_that_cannot_be_written_down_is_answered_all_the_same(
    still_working_server: RawServer, tool: str
) -> None:
    answer = still_working_server.ask("tools/call", {"name": tool, "arguments": {}})
    assert "error" in answer or answer["result"]["isError"]


def test_calls_in_flight_survive_a_crash_beside_them(fresh_server: RawServer) -> None:
    server = fresh_server
    server.send(server.tool(1, "block", seconds=60), server.tool(2, "raise_in_async", kind="SystemExit"))
    assert server.message()["id"] == 2
    server.send(server.tool(3, "open_gate"))
    answers = {answer["id"]: answer["result"] for answer in (server.message(), server.message())}
    assert answers[1]["content"][0]["text"] == "opened"


def test_blocking_handlers_starve_neither_ping_nor_async_handlers(fresh_server: RawServer) -> None:
    server = fresh_server
    server.send(*(server.tool(n, "block", seconds=60) for n in range(40)))
    server.still_works()
    answer = server.ask("ping" if server.revision == HANDSHAKE else "server/discover")
    assert "result" in answer
    server.send(server.tool(100, "open_gate"))
    answered = {server.message()["id"] for _ in range(41)}
    assert answered == {100, *range(40)}, "40 calls are more than there are threads; all are answered"


def test_a_handler_that_prints_says_nothing_on_the_wire(fresh_server: RawServer) -> None:
    server = fresh_server
    assert server.call("say", text="hello")["content"][0]["text"] == "said"
    server.still_works()
    for way in ("print", "write", "original", "descriptor", "child", "shell"):
        eventually(lambda way=way: f"{way} hello\n" in server.stderr, f"{way} reaches stderr")


def test_a_handler_that_reads_stdin_takes_no_message_away(still_working_server: RawServer) -> None:
    assert still_working_server.call("ask_for_input")["content"][0]["text"] == "nobody answers"


def test_a_handler_that_floods_progress_lets_others_through(still_working_server: RawServer) -> None:
    still_working_server.send(still_working_server.tool(1, "flood_progress", progress_token=9, count=50_000))
    assert still_working_server.message()["method"] == "notifications/progress"
    still_working_server.send(still_working_server.tool(2, "echo", text="between"))
    seen: list[float] = []
    between = False
    while (message := still_working_server.message()).get("id") != 1:
        if message.get("id") == 2:
            between = True
        else:
            assert message["params"]["progressToken"] == 9
            seen.append(message["params"]["progress"])
    assert between, "a short call was answered while the flood went on"
    assert seen == sorted(set(seen)), "progress only ever increases"
    assert message["result"]["content"][0]["text"] == "50000"


def test_progress_that_nobody_asked_for_is_not_sent(still_working_server: RawServer) -> None:
    still_working_server.send(still_working_server.tool(1, "flood_progress", count=1_000))
    assert still_working_server.message()["id"] == 1


def test_a_handler_that_floods_changes_lets_others_through(still_working_server: RawServer) -> None:
    still_working_server.send(
        still_working_server.tool(1, "flood_changes", count=2_000), still_working_server.tool(2, "echo", text="between")
    )
    answers: list[Any] = []
    while len(answers) < 2:
        message = still_working_server.message()
        if "id" in message:
            answers.append(message["id"])
        else:
            assert still_working_server.revision == HANDSHAKE, "nobody subscribed"
            assert message["method"] == "notifications/tools/list_changed"
    assert sorted(answers) == [1, 2]
    # The last changes may be told after the answer.
    still_working_server.send(still_working_server.tool(3, "echo", text="end"))
    still_working_server.answer(3)


def test_calls_above_the_bound_wait_and_are_dropped_when_they_are_cancelled(fresh_server: RawServer) -> None:
    server = fresh_server
    server.send(*(server.tool(n, "block", seconds=60) for n in range(MAX_IN_FLIGHT + 50)))
    server.send(*(_cancel(n) for n in range(MAX_IN_FLIGHT + 49, -1, -1)))
    server.still_works()


def _cancel(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


class TestCancelling:
    @pytest.mark.parametrize("id", [99, "99", None, 1.5, True, [], {}])
    def test_an_unknown_call_changes_nothing(self, still_working_server: RawServer, id: Any) -> None:
        still_working_server.send(_cancel(id))

    def test_no_call_at_all_changes_nothing(self, still_working_server: RawServer) -> None:
        still_working_server.send({"jsonrpc": "2.0", "method": "notifications/cancelled"})

    def test_a_finished_call_changes_nothing(self, still_working_server: RawServer) -> None:
        still_working_server.send(still_working_server.tool(1, "echo", text="done"))
        assert still_working_server.message()["id"] == 1
        still_working_server.send(_cancel(1))

    def test_a_running_call_stops_its_handler_and_is_never_answered(self, fresh_server: RawServer) -> None:
        server = fresh_server
        server.send(server.tool(1, "wait_for_ever"))
        server.still_works()
        server.send(_cancel(1))
        server.still_works()
        assert server.call("what_stopped")["content"][0]["text"] == '["wait_for_ever"]'

    def test_the_same_id_of_another_type_does_not_stop_it(self, fresh_server: RawServer) -> None:
        server = fresh_server
        server.send(server.tool(1, "wait_for_ever"), _cancel("1"), _cancel(1.0), _cancel(True))
        server.still_works()
        assert server.call("what_stopped")["content"][0]["text"] == "[]"
        server.send(_cancel(1))

    def test_progress_stops_with_the_call(self, fresh_server: RawServer) -> None:
        server = fresh_server
        server.send(server.tool(1, "flood_progress", progress_token=1, count=10**9))
        for _ in range(100):
            assert "progress" in server.message()["params"]
        server.send(_cancel(1), server.tool(2, "echo", text="after"))
        server.answer(2)
        server.still_works()

    def test_a_call_in_a_thread_is_not_answered_later_either(self, fresh_server: RawServer) -> None:
        server = fresh_server
        server.send(server.tool(1, "block", seconds=60))
        server.still_works()
        server.send(_cancel(1), server.tool(2, "open_gate"))
        assert server.message()["id"] == 2
        server.still_works()

    def test_a_handler_that_refuses_to_stop_is_not_answered(self, still_working_server: RawServer) -> None:
        still_working_server.send(still_working_server.tool("stubborn", "refuse_to_stop"), _cancel("stubborn"))
        still_working_server.still_works()

    def test_cancelling_one_call_of_a_batch_leaves_the_others_their_responses(self) -> None:
        with RawServer(NASTY) as server:
            server.open("2025-03-26")
            server.send([server.tool(1, "wait_for_ever"), server.tool(2, "echo", text="a"), server.request(3, "ping")])
            server.send(_cancel(1))
            line = server.line()
            assert line is not None
            assert line.startswith(b"[") and line.count(b'"id"') == 2
            server.still_works()


GARBLED = {
    "an error that is no object": '{"jsonrpc":"2.0","id":77,"error":5}',
    "an error without a code": '{"jsonrpc":"2.0","id":77,"error":{"message":"x"}}',
    "a result without jsonrpc": '{"id":77,"result":{}}',
    "a result that cannot be read": '{"jsonrpc":"2.0","id":77,"result":{"x":NaN}}',
    "a result that breaks off": '{"jsonrpc":"2.0","id":77,"result":{"x":',
    "neither result nor error": '{"jsonrpc":"2.0","id":77}',
}


class TestAServerAsksItsClient:
    """Requests from the server, on the handshake era; a client may answer them badly as well."""

    @pytest.fixture
    def revision(self) -> str:
        return HANDSHAKE

    @pytest.mark.parametrize("reply", GARBLED.values(), ids=GARBLED)
    def test_a_malformed_reply_fails_the_request_that_waits(self, still_working_server: RawServer, reply: str) -> None:
        still_working_server.send(still_working_server.tool(1, "ping_the_client"))
        assert still_working_server.message() == {"jsonrpc": "2.0", "id": 77, "method": "ping"}
        still_working_server.write(reply.encode() + b"\n")
        result = still_working_server.message()
        assert (result["id"], result["result"]["content"][0]["text"][:14]) == (1, "InvalidAnswer:")

    @pytest.mark.parametrize("id", ["77", 77.0, 78, None, True])
    def test_a_reply_with_another_id_is_not_taken_for_it(self, still_working_server: RawServer, id: Any) -> None:
        still_working_server.send(still_working_server.tool(1, "ping_the_client"))
        assert still_working_server.message()["id"] == 77
        still_working_server.send({"jsonrpc": "2.0", "id": id, "result": {"from": "somebody else"}})
        still_working_server.still_works()
        still_working_server.send({"jsonrpc": "2.0", "id": 77, "result": {"right": True}})
        assert still_working_server.answer(1)["result"]["content"][0]["text"] == "{'right': True}"

    def test_an_overlong_reply_fails_the_request_that_waits(self, still_working_server: RawServer) -> None:
        still_working_server.send(still_working_server.tool(1, "ping_the_client"))
        assert still_working_server.message()["id"] == 77
        still_working_server.write(b'{"jsonrpc":"2.0","id":77,"result":{"x":"' + b"x" * 17_000_000 + b'"}}\n')
        assert "too long" in still_working_server.answer(1)["result"]["content"][0]["text"]

    def test_no_reply_is_a_timeout_and_the_client_is_told(self, still_working_server: RawServer) -> None:
        still_working_server.send(still_working_server.tool(1, "ping_the_client", seconds=0.05))
        assert still_working_server.message()["id"] == 77
        told, answer = still_working_server.message(), still_working_server.message()
        assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", 77)
        assert answer["result"]["content"][0]["text"].startswith("Timeout: ")

    def test_the_end_of_the_client_fails_the_request_that_waits(self, fresh_server: RawServer) -> None:
        server = fresh_server
        server.send(server.tool(1, "ping_the_client"))
        assert server.message()["id"] == 77
        server.close_input()
        assert server.message()["result"]["content"][0]["text"].startswith("OutcomeUnknown: ")


@pytest.mark.parametrize("revision", [ENVELOPE])
def test_a_subscription_that_is_open_does_not_keep_the_server_alive(fresh_server: RawServer) -> None:
    server = fresh_server
    server.send(server.request("s", "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    assert server.message()["method"] == "notifications/subscriptions/acknowledged"
    server.close_input()
    assert server.answer("s")["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "s"
