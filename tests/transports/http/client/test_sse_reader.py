"""A client over HTTP parses each message that it receives once, and none that it sends."""

import enum
from typing import Any

import pytest

from dovetail import Client
from dovetail.protocol.headers import standard_headers
from dovetail.transports.http.client.channel import decode_sent
from dovetail.transports.http.client.sse_reader import is_answer
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Notification, Request
from tests.client.site import Site
from tests.support.scripted import discovery
from tests.transports.http.handmade import ENVELOPE, RecordedRequest, ResponseWriter

RESULT: dict[str, Any] = {"resultType": "complete", "content": []}


class EventSite(Site):
    """Answers calls with a stream of two events: a log message and the result."""

    async def _talk(self, asked: RecordedRequest, line: ResponseWriter) -> None:
        if asked.message.get("method") != "tools/call":
            await super()._talk(asked, line)
            return
        await line.stream()
        log = {"level": "info", "data": "x"}
        await line.event({"jsonrpc": "2.0", "method": "notifications/message", "params": log})
        await line.event({"jsonrpc": "2.0", "id": asked.id, "result": RESULT})
        line.end()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that are decoded while the test runs."""
    lines: list[bytes] = []
    decode = codec.decode

    def count(text: bytes, *, raw_result: bool = False) -> codec.Decoded:
        lines.append(text)
        return decode(text, raw_result=raw_result)

    monkeypatch.setattr(codec, "decode", count)
    return lines


class TestParsing:
    async def test_a_call_that_is_answered_with_json_is_parsed_once(self, decoded: list[bytes]):
        async with (
            Site(server_discover=discovery(), tools_call=RESULT) as site,
            Client(site.url, revision=ENVELOPE) as client,
        ):
            decoded.clear()
            await client.call("add", a=1)
            assert [b'"result"' in line for line in decoded] == [True]

    async def test_every_event_of_a_stream_is_parsed_once(self, decoded: list[bytes]):
        async with EventSite(server_discover=discovery()) as site, Client(site.url, revision=ENVELOPE) as client:
            decoded.clear()
            await client.call("add", a=1)
            assert len(decoded) == 2

    async def test_no_failure_is_built_for_a_request_that_was_answered(self, monkeypatch: pytest.MonkeyPatch):
        from dovetail.runtime.connection import Connection

        failures: list[Exception] = []
        monkeypatch.setattr(Connection, "failed", lambda self, id, problem: failures.append(problem))
        async with (
            Site(server_discover=discovery(), tools_call=RESULT) as site,
            Client(site.url, revision=ENVELOPE) as client,
        ):
            await client.call("add", a=1)
        assert failures == []


class TestSent:
    def test_a_request_has_its_values(self):
        line = b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"n","arguments":{"a":[1]},"z":9}}'
        assert decode_sent(line) == Request("x", "tools/call", {"name": "n", "arguments": {"a": [1]}, "z": 9})

    def test_a_notification_has_its_values(self):
        assert decode_sent(b'{"jsonrpc":"2.0","method":"m","params":{}}') == Notification("m", {})

    @pytest.mark.parametrize(
        "line",
        [
            b'{"jsonrpc":"2.0","id":1,"result":{}}',
            b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}',
            b'[{"jsonrpc":"2.0","id":1,"result":{}}]',
        ],
    )
    def test_an_answer_needs_no_values(self, line: bytes):
        assert decode_sent(line) is None

    def test_a_name_that_is_an_enum_goes_into_the_header_as_its_value(self):
        class Name(str, enum.Enum):  # noqa: UP042  # whose str() is not its value
            ADD = "add"

        headers = standard_headers("tools/call", {"name": Name.ADD}, None)
        assert (str(headers["Mcp-Name"]), type(headers["Mcp-Name"])) == ("add", str)


class TestAnswers:
    @pytest.mark.parametrize(
        ("line", "answer"),
        [
            (b'{"jsonrpc":"2.0","id":1,"result":{}}', True),
            (b'{"id":1,"result":{}}', True),
            (b'{"id":1,"error":{}}', True),
            (b'{"jsonrpc":"2.0","id":1}', True),
            (b'{"jsonrpc":"2.0","id":"1","result":{}}', False),
            (b'{"jsonrpc":"2.0","id":1.0,"result":{}}', False),
            (b'{"jsonrpc":"2.0","id":true,"result":{}}', False),
            (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', False),
            (b'{"jsonrpc":"2.0","method":"x"}', False),
            (b'[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":1,"result":{}}]', True),
            (b"[5]", False),
            (b"nonsense", False),
            (b'{"jsonrpc":"2.0","id":1,"result":{"text":"\xff"}}', True),
        ],
    )
    def test_an_answer_is_recognised_by_its_id_readable_or_not(self, line: bytes, answer: bool):
        assert is_answer(codec.decode(line), 1) is answer
