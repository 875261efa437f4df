"""The few members of a message that a transport reads."""

import pytest

from dovetail.transports.message_head import answers, outline


class TestSent:
    def test_a_request(self):
        line = b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"n","arguments":{"a":[1]},"z":9}}'
        sent = outline(line)
        assert (sent.method, sent.id) == ("tools/call", "x")
        assert sent.params is not None
        assert (sent.params.name, bytes(sent.params.arguments)) == ("n", b'{"a":[1]}')

    def test_a_version(self):
        sent = outline(b'{"id":1,"method":"m","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"v"}}}')
        assert sent.params is not None
        assert sent.params.meta is not None
        assert sent.params.meta.version == "v"

    @pytest.mark.parametrize(
        "line", [b'{"jsonrpc":"2.0","id":1,"result":{}}', b'{"id":1,"error":{}}', b'[{"id":1,"result":{}}]']
    )
    def test_an_answer_is_about_nothing(self, line: bytes):
        sent = outline(line)
        assert (sent.method, sent.id) == (None, None)


class TestHeard:
    @pytest.mark.parametrize(
        ("line", "answer"),
        [
            (b'{"id":1,"result":{}}', True),
            (b'{"id":1,"error":{}}', True),
            (b'{"id":"1","result":{}}', False),
            (b'{"id":1.0,"result":{}}', False),
            (b'{"id":true,"result":{}}', False),
            (b'{"id":1,"method":"ping"}', False),
            (b'{"method":"x"}', False),
            (b'[{"method":"x"},{"id":1,"result":{}}]', True),
            (b"[5]", False),
            (b"nonsense", False),
            (b'{"jsonrpc":"2.0","id":1,"result":{"text":"\xff"}}', True),
        ],
    )
    def test_what_answers_a_request(self, line: bytes, answer: bool):
        assert answers(line, 1) is answer
