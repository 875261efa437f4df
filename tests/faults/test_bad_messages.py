"""A bad message over stdio hurts only itself: it is answered where it can be, and the next one is served."""

import json
from typing import Any

import pytest

from tests.faults.conftest import NASTY
from tests.support.raw import ENVELOPE, HANDSHAKE, RawServer, memory

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602


def refused(server: RawServer, line: bytes) -> dict[str, Any]:
    """Send one line, take the error that it gets, and see that the connection still works."""
    server.write(line + b"\n")
    answer = server.message()
    server.still_works()
    return answer


def code_and_id(answer: dict[str, Any]) -> tuple[int, Any]:
    return answer["error"]["code"], answer.get("id", "none")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"hello", id="words"),
        pytest.param(b"{'jsonrpc': '2.0'}", id="python"),
        pytest.param(b'{"jsonrpc":"2.0","method":"ping"', id="cut off"),
        pytest.param(b'{"jsonrpc":"2.0",}', id="trailing comma"),
        pytest.param(b"\xff\xfe{}", id="not UTF-8"),
        pytest.param(b"\x00", id="null byte"),
        pytest.param(b"[" * 100_000, id="100,000 brackets"),
        pytest.param(b'{"a":' * 100_000, id="100,000 objects"),
        pytest.param(b"NaN", id="NaN"),
    ],
)
def test_what_is_no_json_gets_a_parse_error_without_an_id(still_working_server: RawServer, line: bytes) -> None:
    assert code_and_id(refused(still_working_server, line)) == (PARSE_ERROR, "none")


def test_a_parse_error_carries_a_null_id_before_the_first_contact_and_where_the_revision_wants_one() -> None:
    with RawServer(NASTY) as server:
        server.write(b"hello\n")
        assert code_and_id(server.message()) == (PARSE_ERROR, None)
        server.open("2025-06-18")
        server.write(b"hello\n")
        assert code_and_id(server.message()) == (PARSE_ERROR, None)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b'"\xff\xfe"', id="not UTF-8"),
        pytest.param(b'"\xed\xa0\x80"', id="lone surrogate, raw"),
        pytest.param(b'"\\ud800"', id="lone surrogate, escaped"),
        pytest.param(b'"\\udc00 \\ud800"', id="surrogates the wrong way round"),
        pytest.param(b"9" * 6_000, id="6,000 digits"),
        pytest.param(b"NaN", id="NaN"),
        pytest.param(b"-Infinity", id="infinity"),
        pytest.param(b"1e999", id="a float out of range"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="100,000 brackets"),
        pytest.param(b"[" * 100_000, id="100,000 open brackets"),
    ],
)
def test_a_value_nobody_can_read_is_refused_with_the_id_of_its_request(
    still_working_server: RawServer, value: bytes
) -> None:
    line = b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":%b}}' % value
    assert code_and_id(refused(still_working_server, line)) == (PARSE_ERROR, 5)


@pytest.mark.parametrize("digits", [6_000, 100_000])
def test_an_id_that_is_too_long_to_read_is_not_sent_back(still_working_server: RawServer, digits: int) -> None:
    line = b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % (b"9" * digits)
    assert code_and_id(refused(still_working_server, line)) == (PARSE_ERROR, "none")


def test_a_large_integer_id_comes_back_as_it_was(still_working_server: RawServer) -> None:
    still_working_server.send(
        still_working_server.request(2**100, "tools/call", {"name": "echo", "arguments": {"text": "hi"}})
    )
    assert still_working_server.answer(2**100)["result"]["content"][0]["text"] == "hi"


@pytest.mark.parametrize(
    ("head", "tail", "id"),
    [
        pytest.param(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"', b'"}}', 7, id="id first"),
        pytest.param(b'{"jsonrpc":"2.0","method":"ping","params":{"x":"', b'"},"id":"z"}', "z", id="id last"),
        pytest.param(b"", b"", "none", id="no id"),
    ],
)
def test_a_line_of_50_mb_is_refused_as_it_goes_by(fresh_server: RawServer, head: bytes, tail: bytes, id: Any) -> None:
    server = fresh_server
    server.still_works()
    before = memory(server.pid)
    answer = refused(server, head + b"x" * 50_000_000 + tail)
    assert code_and_id(answer) == (INVALID_REQUEST, id)
    assert "too long" in answer["error"]["message"]
    assert memory(server.pid, "VmHWM") - before < 45, "more than the limit was kept"


def test_a_line_just_below_the_limit_is_served(still_working_server: RawServer) -> None:
    text = "x" * (16 * 1024 * 1024 - 1024)
    still_working_server.send(still_working_server.tool(1, "echo", text=text))
    assert still_working_server.answer(1)["result"]["content"][0]["text"] == text


def test_the_last_of_duplicate_keys_counts(still_working_server: RawServer) -> None:
    request = json.dumps(still_working_server.tool(2, "echo", text="second"))[1:-1].encode()
    still_working_server.write(b'{"jsonrpc":"1.0","id":1,"method":"no/such",' + request + b"}\n")
    answer = still_working_server.message()
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (2, "second")


@pytest.mark.parametrize("line", [b"5", b'"ping"', b"null", b"true", b"{}", b"[]", b"[1]"])
def test_json_that_is_no_message_is_an_invalid_request(still_working_server: RawServer, line: bytes) -> None:
    assert code_and_id(refused(still_working_server, line)) == (INVALID_REQUEST, "none")


@pytest.mark.parametrize("id", [b"null", b"1.0", b"1.5", b"true", b"false", b"{}", b"[1]"])
def test_an_id_that_is_no_id_is_an_invalid_request(still_working_server: RawServer, id: bytes) -> None:
    line = b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % id
    assert code_and_id(refused(still_working_server, line)) == (INVALID_REQUEST, "none")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"id":8,"method":"ping"}', id="no jsonrpc"),
        pytest.param(b'{"jsonrpc":"1.0","id":8,"method":"ping"}', id="jsonrpc 1.0"),
        pytest.param(b'{"jsonrpc":2.0,"id":8,"method":"ping"}', id="jsonrpc as a number"),
        pytest.param(b'{"jsonrpc":"2.0","id":8,"method":"ping","params":[]}', id="params as a list"),
        pytest.param(b'{"jsonrpc":"2.0","id":8,"method":"ping","params":"x"}', id="params as text"),
        pytest.param(b'{"jsonrpc":"2.0","id":8,"method":5}', id="method as a number"),
        pytest.param(b'{"jsonrpc":"2.0","id":8}', id="no method"),
    ],
)
def test_a_request_of_the_wrong_shape_is_answered_under_its_id(still_working_server: RawServer, line: bytes) -> None:
    assert code_and_id(refused(still_working_server, line)) == (INVALID_REQUEST, 8)


def test_an_unknown_method_is_not_found(still_working_server: RawServer) -> None:
    answer = refused(still_working_server, json.dumps(still_working_server.request("a", "no/such")).encode())
    assert code_and_id(answer) == (METHOD_NOT_FOUND, "a")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"jsonrpc":"2.0","method":"notifications/no_such"}', id="unknown"),
        pytest.param(b'{"jsonrpc":"2.0","method":"ping"}', id="a request without an id"),
        pytest.param(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}', id="empty progress"),
        pytest.param(
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}',
            id="progress of nothing",
        ),
    ],
)
def test_a_notification_that_means_nothing_is_passed_over(still_working_server: RawServer, line: bytes) -> None:
    still_working_server.write(line + b"\n")
    still_working_server.still_works()


MALFORMED_NOTIFICATIONS = [
    pytest.param(b'{"method":"notifications/x"}', id="no jsonrpc"),
    pytest.param(b'{"jsonrpc":"1.0","method":"notifications/x"}', id="jsonrpc 1.0"),
    pytest.param(b'{"jsonrpc":"2.0","method":5}', id="method as a number"),
    pytest.param(b'{"jsonrpc":"2.0","method":null}', id="method null"),
    pytest.param(b'{"jsonrpc":"2.0","method":"notifications/x","params":[1]}', id="params as a list"),
    pytest.param(b'{"jsonrpc":"2.0","method":"notifications/x","params":"x"}', id="params as text"),
    pytest.param(b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":NaN}}', id="unreadable value"),
    pytest.param(b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"\xff"}}', id="not UTF-8"),
    pytest.param(
        b'{"jsonrpc":"2.0","method":"x","params":{"a":%b%b}}' % (b"[" * 5000, b"]" * 5000), id="nested too deeply"
    ),
    pytest.param(b'{"jsonrpc":"2.0","method":"x","params":{"a":"%b"}}' % (b"x" * (17 << 20)), id="too long"),
]


@pytest.mark.parametrize("line", MALFORMED_NOTIFICATIONS)
def test_a_malformed_notification_gets_no_answer(still_working_server: RawServer, line: bytes) -> None:
    still_working_server.write(line + b"\n")
    still_working_server.still_works()


@pytest.mark.parametrize("line", MALFORMED_NOTIFICATIONS[:6])
def test_a_malformed_notification_in_a_batch_gets_no_answer(line: bytes) -> None:
    with RawServer(NASTY) as server:
        server.open("2025-03-26")
        server.write(b"[%b]\n[%b,%b]\n" % (line, line, b'{"jsonrpc":"2.0","id":1,"method":"ping"}'))
        answer = server.line()
        assert answer is not None
        assert [one["id"] for one in json.loads(answer)] == [1]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"jsonrpc":"2.0","id":11,"result":{}}', id="result"),
        pytest.param(b'{"jsonrpc":"2.0","id":11,"error":{"code":1,"message":"x"}}', id="error"),
        pytest.param(b'{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}', id="error without an id"),
        pytest.param(b'{"jsonrpc":"2.0","id":11,"error":5}', id="malformed error"),
        pytest.param(b'{"jsonrpc":"2.0","id":11,"result":NaN}', id="unreadable result"),
        pytest.param(b'{"id":11,"result":{}}', id="result without jsonrpc"),
        pytest.param(b'{"jsonrpc":"2.0","result":{}}', id="result without an id"),
    ],
)
def test_a_response_to_nobody_is_passed_over(still_working_server: RawServer, line: bytes) -> None:
    still_working_server.write(line + b"\n")
    still_working_server.still_works()


def test_an_id_in_flight_is_refused_and_the_first_call_goes_on(fresh_server: RawServer) -> None:
    server = fresh_server
    server.send(server.tool(3, "block", seconds=60), server.tool(3, "echo", text="again"))
    answer = server.message()
    assert code_and_id(answer) == (INVALID_REQUEST, 3)
    assert "in flight" in answer["error"]["message"]
    server.send(server.tool("3", "echo", text="another type, another id"))
    assert server.message()["id"] == "3"
    server.send(server.tool(4, "open_gate"))
    answers = {server.message()["id"] for _ in range(2)}
    assert answers == {3, 4}
    server.send(server.tool(3, "echo", text="free again"))
    assert server.answer(3)["result"]["content"][0]["text"] == "free again"


def test_a_request_before_the_first_contact_is_refused() -> None:
    with RawServer(NASTY) as server:
        server.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n')
        assert code_and_id(server.message()) == (INVALID_PARAMS, 1)
        server.open(HANDSHAKE).still_works()


def test_a_second_initialize_begins_the_connection_anew() -> None:
    with RawServer(NASTY) as server:
        server.open(HANDSHAKE)
        server.send(server.tool("of the first", "block", seconds=60))
        client = {"name": "again", "version": "1"}
        params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": client}
        assert server.ask("initialize", params)["result"]["protocolVersion"] == "2024-11-05"
        server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        server.still_works()
        # Without structured content: the revision is that of the second handshake.
        assert "structuredContent" not in server.call("echo", text="hi")
        server.send(server.tool("of the second", "open_gate"))
        answers = {answer["id"]: answer["result"] for answer in (server.message(), server.message())}
        # A call of the first handshake is still answered, as its own revision says.
        assert "structuredContent" in answers["of the first"]
        assert "structuredContent" not in answers["of the second"]
        server.open("2025-06-18").still_works()


def test_initialize_does_not_exist_where_every_request_stands_alone() -> None:
    with RawServer(NASTY) as server:
        server.open(ENVELOPE)
        client = {"name": "again", "version": "1"}
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": client}
        assert server.ask("initialize", params)["error"]["code"] == METHOD_NOT_FOUND
        server.still_works()


def test_a_thousand_kinds_of_garbage_leave_no_mark(still_working_server: RawServer) -> None:
    good = json.dumps(still_working_server.tool(1, "echo", text="hi")).encode()
    still_working_server.write(b"".join(good[:cut] + b"\n" for cut in range(1, len(good))))
    for _ in range(1, len(good)):
        assert "error" in still_working_server.message()
    still_working_server.still_works()
