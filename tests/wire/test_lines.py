"""Newline framing: the same lines however the bytes are cut, and memory that stays within the limit."""

import tracemalloc
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from dovetail.wire.lines import LineSplitter, TooLong

LIMIT = 20

streams = st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"{}"]) | st.binary(max_size=40), max_size=12).map(
    b"".join
)


def split(*chunks: bytes, limit: int = LIMIT) -> list[bytes | TooLong]:
    """Every line of a stream that comes in these chunks and then ends."""
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    last = splitter.end()
    return lines if last is None else [*lines, last]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:stop] for start, stop in pairwise(edges)]


def test_a_line_ends_at_its_newline():
    splitter = LineSplitter(LIMIT)
    assert splitter.feed(b'{"a":1}\n{"b":2}\n{"c"') == [b'{"a":1}', b'{"b":2}']
    assert splitter.feed(b":3}\n") == [b'{"c":3}']


def test_what_stands_after_the_last_newline_is_a_line_when_the_stream_ends():
    splitter = LineSplitter(LIMIT)
    assert splitter.feed(b"one\ntwo") == [b"one"]
    assert splitter.end() == b"two"
    assert splitter.end() is None


def test_a_carriage_return_before_the_newline_is_no_part_of_the_line():
    assert split(b"one\r\ntwo\r", b"\nthree\r") == [b"one", b"two", b"three"]
    assert split(b"a\rb\r\r\n") == [b"a\rb\r"]


def test_empty_lines_are_nothing():
    assert split(b"\n\r\n\n", b"", b"\r") == []


def test_a_line_of_the_limit_is_taken_and_one_byte_more_is_too_long():
    assert split(b"x" * LIMIT + b"\n") == [b"x" * LIMIT]
    assert split(b"x" * (LIMIT + 1) + b"\n") == [TooLong(LIMIT + 1, b"x" * (LIMIT + 1), b"x" * (LIMIT + 1), LIMIT)]


def test_after_a_line_that_is_too_long_the_next_one_is_read():
    assert split(b"y" * 50, b"y" * 50 + b"\nnext\n")[1:] == [b"next"]


def test_of_a_line_that_is_too_long_both_ends_are_kept():
    body = bytes(range(32, 127)) * 100
    for chunks in ([body + b"\n"], cut(body + b"\n", list(range(0, 9500, 37)))):
        (line,) = split(*chunks, limit=1000)
        assert line == TooLong(len(body), body[:512], body[-512:], 1000)


def test_a_stream_may_end_within_a_line_that_is_too_long():
    assert split(b"z" * 30) == [TooLong(30, b"z" * 30, b"z" * 30, LIMIT)]


@given(streams, st.lists(st.integers(0, 10_000), max_size=8))
@example(b"x" * 21 + b"\r\nab", [20, 21, 22])
def test_where_the_bytes_are_cut_makes_no_difference(stream: bytes, places: list[int]):
    assert split(*cut(stream, places)) == split(stream)


@given(streams)
def test_the_lines_are_those_between_newlines(stream: bytes):
    expected: list[bytes | TooLong] = []
    for line in stream.split(b"\n"):
        if len(line) > LIMIT:
            expected.append(TooLong(len(line), line[:512], line[-512:], LIMIT))
        elif bare := line.removesuffix(b"\r"):
            expected.append(bare)
    assert split(stream) == expected


def test_memory_stays_near_the_limit_however_the_bytes_come():
    limit = 1 << 14
    chunks = {"byte by byte": (2 * limit, b"x"), "large pieces": (50, b"y" * 4096)}
    for count, chunk in chunks.values():
        splitter = LineSplitter(limit)
        tracemalloc.start()
        for _ in range(count):
            splitter.feed(bytes(bytearray(chunk)))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 3 * limit
