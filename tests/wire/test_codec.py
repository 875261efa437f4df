"""The one parse and the one dump: every kind of message, and everything that is none."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.wire import codec
from dovetail.wire.jsonrpc import Failure, Invalid, Notification, Request, Response

PARSE_ERROR, INVALID_REQUEST = -32700, -32600

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
integers = st.integers(-(2**63), 2**64 - 1)
ids = integers | words.filter(str.isprintable)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=8,
)
objects = st.dictionaries(words, values, max_size=4)

MESSAGES = Request | Notification | Response | Failure | Invalid | list


def wire(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


class TestReading:
    def test_a_request_is_decoded(self):
        text = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"c"}}'
        assert codec.decode(text) == Request(1, "tools/list", {"cursor": "c"})

    def test_a_request_without_params_has_none(self):
        assert codec.decode(wire(id="a", method="ping")) == Request("a", "ping", {})

    def test_a_notification_is_decoded(self):
        assert codec.decode(wire(method="notifications/initialized")) == Notification("notifications/initialized", {})

    def test_a_response_is_decoded(self):
        assert codec.decode(wire(id=7, result={"a": [1]})) == Response(7, {"a": [1]})

    def test_a_result_may_be_null(self):
        assert codec.decode(wire(id=7, result=None)) == Response(7, None)

    def test_what_a_peer_writes_as_null_is_as_good_as_absent(self):
        assert codec.decode(wire(id=7, method="ping", params=None)) == Request(7, "ping", {})
        assert codec.decode(wire(id=7, result={}, error=None)) == Response(7, {})

    def test_an_error(self):
        error = {"code": -32601, "message": "Method not found", "data": {"x": 1}}
        assert codec.decode(wire(id=7, error=error)) == Failure(7, -32601, "Method not found", {"x": 1})

    @pytest.mark.parametrize("members", [{}, {"id": None}, {"id": 1.5}])
    def test_an_error_whose_id_nobody_could_read(self, members: dict[str, Any]):
        message = codec.decode(wire(**members, error={"code": -32700, "message": "Parse error"}))
        assert message == Failure(None, -32700, "Parse error")

    def test_a_batch_is_decoded(self):
        text = b"[%b, %b, 5]" % (wire(id=1, method="ping"), wire(method="n"))
        batch = codec.decode(text)
        assert isinstance(batch, list)
        assert batch[:2] == [Request(1, "ping", {}), Notification("n", {})]
        assert batch[2] == Invalid(None, INVALID_REQUEST, "Invalid request: a message is a JSON object")

    @pytest.mark.parametrize("text", [b' \t{"jsonrpc":"2.0","method":"n"} ', b'{"jsonrpc":"2.0","method":"n"}\r'])
    def test_whitespace_around_a_message_does_not_matter(self, text: bytes):
        assert codec.decode(text) == Notification("n", {})

    def test_members_that_nobody_knows_do_not_matter(self):
        assert codec.decode(wire(method="n", extra=[1])) == Notification("n", {})

    def test_of_two_equal_keys_the_last_counts(self):
        text = b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a","method":"b"}'
        assert codec.decode(text) == Request(2, "b", {})

    def test_a_message_with_a_method_is_a_request_whatever_else_it_has(self):
        assert isinstance(codec.decode(wire(id=1, method="m", result={})), Request)

    @pytest.mark.parametrize("id", [0, -1, 2**53 + 1, 2**64, "", "5", "ü"])
    def test_ids_arrive_as_they_were_sent(self, id: int | str):
        message = codec.decode(wire(id=id, method="ping"))
        assert isinstance(message, Request)
        assert (message.id, type(message.id)) == (id, type(id))


REFUSED = {
    "no jsonrpc": (b'{"id":1,"method":"m"}', 1, "jsonrpc"),
    "another jsonrpc": (b'{"jsonrpc":"1.0","id":1,"method":"m"}', 1, "jsonrpc"),
    "method is no string": (wire(id=1, method=5), 1, "method"),
    "method is null": (wire(id="a", method=None), "a", "method"),
    "params is a list": (wire(id=1, method="m", params=[1]), 1, "params must be an object"),
    "params of a notification": (wire(method="m", params="x"), None, "params must be an object"),
    "id is null": (wire(id=None, method="m"), None, "an id is a string or an integer"),
    "id is a float": (wire(id=1.0, method="m"), None, "an id is a string or an integer"),
    "id is a bool": (wire(id=True, method="m"), None, "an id is a string or an integer"),
    "id is an object": (wire(id={}, method="m"), None, "an id is a string or an integer"),
    "nothing in it": (b"{}", None, "no method"),
    "only an id": (wire(id=3), 3, "no method"),
    "a number": (b"5", None, "JSON object"),
    "a string": (b'"hello"', None, "JSON object"),
    "an empty batch": (b"[]", None, "empty batch"),
}

MALFORMED = {
    "nothing": b"",
    "words": b"Server is listening",
    "cut off": b'{"jsonrpc":"2.0","id":1',
    "trailing comma": b'[{"jsonrpc":"2.0","method":"m"},]',
    "NaN": b"NaN",
    "a byte order mark": b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"m"}',
    "unreadable batch": b'[{"jsonrpc":"2.0","id":1,"method":"\xff"}]',
}

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}'

SALVAGED = {
    "not UTF-8": (REQUEST % b'{"x":"\xff"}', "not UTF-8"),
    "lone surrogate, raw": (REQUEST % b'{"x":"\xed\xa0\x80"}', "not UTF-8"),
    "lone surrogate, escaped": (REQUEST % b'{"x":"\\ud800"}', ""),
    "NaN": (REQUEST % b'{"x":NaN}', "malformed"),
    "infinity": (REQUEST % b'{"x":1e999}', "out of range"),
    "6,000 digits": (REQUEST % (b'{"x":%b}' % (b"9" * 6000)), "out of range"),
    "100,000 brackets": (REQUEST % (b"[" * 100_000), "too deeply"),
    "cut off": (b'{"jsonrpc":"2.0","id":1,"method":"tools/ca', "truncated"),
}


class TestRefusing:
    @pytest.mark.parametrize(("text", "id", "reason"), REFUSED.values(), ids=REFUSED)
    def test_json_that_is_no_message_is_an_invalid_request(self, text: bytes, id: int | str | None, reason: str):
        message = codec.decode(text)
        assert isinstance(message, Invalid)
        assert (message.id, message.code, message.reply) == (id, INVALID_REQUEST, False)
        assert reason in message.message

    @pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
    def test_what_is_not_json_is_a_parse_error(self, text: bytes):
        message = codec.decode(text)
        assert isinstance(message, Invalid)
        assert (message.id, message.code) == (None, PARSE_ERROR)
        assert message.message.startswith("Parse error: ")

    @pytest.mark.parametrize(("text", "reason"), SALVAGED.values(), ids=SALVAGED)
    def test_whoever_sent_an_unreadable_request_can_still_be_answered(self, text: bytes, reason: str):
        message = codec.decode(text)
        assert isinstance(message, Invalid)
        assert (message.id, message.code, message.reply) == (1, PARSE_ERROR, False)
        assert reason in message.message

    @pytest.mark.parametrize(
        "text",
        [
            wire(id=4, result={}).replace(b"2.0", b"1.0"),
            wire(id=4, error="broken"),
            wire(id=4, error={"code": "x", "message": "m"}),
            wire(id=4, error={"code": 1}),
            wire(id=4, error={"code": True, "message": "m"}),
            b'{"jsonrpc":"2.0","id":4,"result":NaN}',
        ],
    )
    def test_an_answer_that_cannot_be_taken_names_the_call_it_fails(self, text: bytes):
        message = codec.decode(text)
        assert isinstance(message, Invalid)
        assert (message.id, message.reply) == (4, True)

    def test_a_result_without_a_readable_id_answers_nobody(self):
        message = codec.decode(wire(id=None, result={}))
        assert isinstance(message, Invalid)
        assert (message.id, message.reply) == (None, True)

    def test_a_batch_has_a_longest_length(self):
        longest = b"[%b]" % b",".join([b"1"] * codec.MAX_BATCH)
        assert isinstance(codec.decode(longest), list)
        message = codec.decode(longest[:-1] + b",1]")
        assert isinstance(message, Invalid)
        assert "batch of more than 1000" in message.message


class TestNeverRaising:
    @given(st.binary())
    def test_any_bytes_are_a_message_or_invalid(self, text: bytes):
        assert isinstance(codec.decode(text), MESSAGES)

    @given(st.data(), ids, objects)
    def test_a_damaged_message_is_a_message_or_invalid(self, data: st.DataObject, id: int | str, params: Any):
        text = bytearray(codec.request(id, "tools/call", codec.encode(params)))
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(text) - 1))
            text[at : at + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=5))
            text = text or bytearray(b"{")
        assert isinstance(codec.decode(bytes(text)), Request | Notification | Response | Failure | Invalid | list)

    @given(values)
    def test_any_json_is_a_message_or_invalid(self, value: Any):
        assert isinstance(codec.decode(codec.encode(value)), MESSAGES)


class TestRoundTrips:
    @given(ids, words, objects)
    def test_requests(self, id: int | str, method: str, params: dict[str, Any]):
        assert codec.decode(codec.request(id, method, codec.encode(params))) == Request(id, method, params)
        assert codec.decode(codec.request(id, method, None)) == Request(id, method, {})

    @given(words, objects)
    def test_notifications(self, method: str, params: dict[str, Any]):
        assert codec.decode(codec.notification(method, codec.encode(params))) == Notification(method, params)
        assert codec.decode(codec.notification(method, None)) == Notification(method, {})

    @given(ids, values)
    def test_responses(self, id: int | str, result: Any):
        assert codec.decode(codec.response(id, codec.encode(result))) == Response(id, result)

    @given(ids, st.integers(-40000, 40000), words, values)
    def test_errors(self, id: int | str, code: int, message: str, data: Any):
        text = codec.failure(id, code, message, data, null_id=True)
        assert codec.decode(text) == Failure(id, code, message, data)

    def test_batches(self):
        text = codec.batch([codec.request(1, "a", None), codec.notification("b", None)])
        assert codec.decode(text) == [Request(1, "a", {}), Notification("b", {})]


class TestWriting:
    def test_a_message_is_one_line(self):
        params = codec.encode({"text": "two\nlines\r\n\u2028"})
        for text in (
            codec.request(1, "m", params),
            codec.notification("m", params),
            codec.response(1, params),
            codec.failure(1, 0, "a\nb", null_id=True),
        ):
            assert b"\n" not in text
            assert b"\r" not in text

    def test_an_error_without_an_id_carries_null_or_nothing(self):
        assert json.loads(codec.failure(None, -32700, "m", null_id=True)) == {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": -32700, "message": "m"},
        }
        assert "id" not in json.loads(codec.failure(None, -32700, "m", null_id=False))

    def test_an_error_with_an_id_carries_it_either_way(self):
        for null_id in (True, False):
            assert json.loads(codec.failure("a", 1, "m", null_id=null_id))["id"] == "a"

    def test_data_is_left_out_when_there_is_none(self):
        assert "data" not in json.loads(codec.failure(1, 1, "m", null_id=True))["error"]

    def test_structs_are_written_too(self):
        class Point(msgspec.Struct):
            x: int

        assert codec.encode(Point(3)) == b'{"x":3}'
