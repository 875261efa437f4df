"""Whom to answer when a message cannot be read: the right one, or nobody."""

import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dovetail.wire.recover_id import recover, recover_from_ends

ids = st.integers(-(10**18), 10**18) | st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
keys = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "x"]) | st.text(max_size=5)
values = st.recursive(
    ids | st.booleans() | st.floats() | st.sampled_from(['"id":7}', ',"id":7,', "{", "]", "\\", '"']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"m","params":NaN}', 5),
        (b'{"jsonrpc":"2.0","id":"abc","method":NaN}', "abc"),
        (b'{"method":NaN,"params":{"id":1},"jsonrpc":"2.0","id":5}', 5),
        (b' { "id" : -3 , "x":NaN }', -3),
        (b'{"id":"\xc3\xbc","x":NaN}', "ü"),
        (b'{"id":5,"params":{"deep":[[[[[[', 5),
        (b'{"id":5}{"id":6}', 5),
    ],
)
def test_the_id_of_the_outermost_object_is_found(text: bytes, id: int | str):
    assert recover(text).id == id


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"Listening on port 80",
        b'log: {"id":5}',
        b'["id",5]',
        b'["id":5]',
        b'[{"id":5,"x":NaN}]',
        b'{"params":{"id":5}}',
        b'{"text":"\\",\\"id\\":5,"}',
        b'{"id":12',
        b'{"id":"12',
        b'{"id":5 6}',
        b'{"id":1.5}',
        b'{"id":1e3}',
        b'{"id":05}',
        b'{"id":true}',
        b'{"id":null}',
        b'{"id":[5]}',
        b'{"id":"a\\u0062"}',
        b'{"id":"\xff"}',
        b'{"id":99999999999999999999}',
        b'{"id":1,"id":2}',
        b'{"id":1,"id":[]}',
        b'{"id":[],"id":1}',
    ],
)
def test_rather_no_id_than_a_wrong_one(text: bytes):
    assert recover(text).id is None


def test_the_same_id_twice_is_that_id():
    assert recover(b'{"id":1,"x":NaN,"id":1}').id == 1


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        (b'{"id":1,"result":{"x":NaN}}', True),
        (b'{"id":1,"error":NaN}', True),
        (b'{"result":{"cut":"o', True),
        (b'{"id":1,"method":"m","params":{"result":1}}', False),
        (b'{"id":1,"method":"m","result":NaN}', False),
        (b'{"id":1,"x":"result"}', False),
    ],
)
def test_an_answer_is_known_by_its_result_or_error(text: bytes, reply: bool):
    assert recover(text).reply is reply


class TestOfEnds:
    def test_the_id_may_stand_at_the_beginning(self):
        assert recover_from_ends(b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"x":"aaaa', b'aa"}}').id == 5

    @pytest.mark.parametrize(
        "tail", [b'aa"}},"id":5}', b'aa"}}, "jsonrpc": "2.0", "id": 5 } ', b'aa"}},"id":5,"jsonrpc":"2.0"}']
    )
    def test_or_at_the_end(self, tail: bytes):
        assert recover_from_ends(b'{"method":"m","params":{"x":"aaaa', tail).id == 5

    def test_a_number_cut_off_at_the_edge_is_no_id(self):
        assert recover_from_ends(b'{"method":"m","id":123', b'"}}').id is None

    @pytest.mark.parametrize("tail", [b'"x":{"id":5}}', b'"x":"\\"id\\":5}', b'{"id":5}]', b'"id":5},"y":1}'])
    def test_an_id_that_is_not_the_messages_own_does_not_count(self, tail: bytes):
        assert recover_from_ends(b'{"method":"m","params":{', tail).id is None

    def test_of_a_batch_nobody_is_answered(self):
        assert recover_from_ends(b'[{"method":"m"},', b'"id":5}').id is None

    def test_a_readable_message_that_is_very_long_is_seen_by_its_ends_too(self):
        text = b'{"method":"m","params":{"x":NaN,"y":"%b"},"jsonrpc":"2.0","id":5}' % (b"a" * (1 << 20))
        assert recover(text).id == 5


@given(st.dictionaries(keys, values, max_size=5), st.booleans(), st.integers(0, 400))
@example({"id": 123456}, False, 9)
def test_of_any_message_cut_anywhere_the_id_is_its_own_or_none(message: dict[str, Any], escaped: bool, at: int):
    try:
        text = json.dumps(message, ensure_ascii=escaped).encode()
    except UnicodeEncodeError:
        return
    own = message.get("id")
    for seen in (recover(text), recover(text[:at]), recover_from_ends(text[:at], text[-at:] if at else b"")):
        assert seen.id is None or (seen.id == own and type(seen.id) is type(own))


@given(ids, values)
def test_the_id_of_a_well_formed_request_is_found(id: int | str, params: Any):
    text = json.dumps({"jsonrpc": "2.0", "id": id, "method": "m", "params": params}).encode()
    plain = isinstance(id, int) or f'"{id}"' == json.dumps(id)
    assert recover(text).id == (id if plain else None)


@pytest.mark.parametrize("unit", [b'\\"', b'"', b"[", b'{"', b"\\", b",", b"1,", b'"id":1,', b" ", b'"id" '])
def test_time_grows_with_the_length_and_not_faster(unit: bytes):
    def seconds(length: int) -> float:
        text = b'{"' + unit * (length // len(unit))
        begin = time.process_time()
        recover(text)
        recover_from_ends(text, text[-512:])
        return time.process_time() - begin

    # Quadratic time would take minutes for the larger one; thirty-two times the length is allowed 400 times.
    assert seconds(1 << 19) < 400 * max(seconds(1 << 14), 0.002)
