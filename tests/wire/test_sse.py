"""Server-sent events: what is written, and what is read from any chunking."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.wire.sse import KEEP_ALIVE, Event, EventParser, EventTooLong, encode_event


def _read(stream, *, size=None, limit=100_000):
    parser = EventParser(limit)
    step = size or max(1, len(stream))
    return [found for at in range(0, len(stream), step) for found in parser.feed(stream[at : at + step])]


def test_an_event_is_one_data_line():
    assert encode_event(b'{"a":1}') == b'data: {"a":1}\n\n'


def test_all_fields_are_written():
    assert encode_event(b"x", id="s-7", name="endpoint", retry=500) == (
        b"event: endpoint\nretry: 500\nid: s-7\ndata: x\n\n"
    )


@pytest.mark.parametrize("data", [b"a\nb", b"a\r\nb", b"a\rb"])
def test_line_breaks_make_several_data_lines(data):
    assert encode_event(data) == b"data: a\ndata: b\n\n"
    assert _read(encode_event(data)) == [Event(b"a\nb")]


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b"])
def test_an_id_or_name_cannot_break_out_of_its_line(bad):
    with pytest.raises(ValueError, match="line break or NUL"):
        encode_event(b"x", id=bad)
    with pytest.raises(ValueError, match="line break or NUL"):
        encode_event(b"x", name=bad)


def test_a_waiting_time_is_not_negative():
    with pytest.raises(ValueError, match="negative"):
        encode_event(b"x", retry=-1)


def test_a_priming_event_tells_its_id():
    assert _read(encode_event(b"", id="s-0")) == [Event(b"", id="s-0")]


def test_a_waiting_time_alone_is_told():
    assert _read(b"retry: 1500\n\n") == [Event(b"", retry=1500)]


def test_an_id_stays_and_a_waiting_time_does_not():
    stream = b"id: 1\nretry: 20\ndata: a\n\ndata: b\n\nid\ndata: c\n\n"
    assert _read(stream) == [Event(b"a", id="1", retry=20), Event(b"b", id="1"), Event(b"c", id="")]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        # The three examples of the standard, section 9.2.6.
        (
            b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            [Event(b"first event", id="1"), Event(b"second event", id=""), Event(b" third event", id="")],
        ),
        (b"data\n\ndata\ndata\n\ndata:", [Event(b""), Event(b"\n")]),
        (b"data:test\n\ndata: test\n\n", [Event(b"test"), Event(b"test")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Event(b"a")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [Event(b"a")]),
        (b"event: add\ndata: 1\n\ndata: 2\n\n", [Event(b"1", "add"), Event(b"2")]),
        (b"event: lost\n\ndata: 2\n\n", [Event(b"2")]),
        (b"event: \xff\ndata: 2\n\n", [Event(b"2", "\ufffd")]),
        (b"id: a\0b\ndata: 1\n\n", [Event(b"1")]),
        (b"retry: 1x\ndata: 1\n\nretry:\ndata: 2\n\nretry: -1\ndata: 3\n\n", [Event(b"1"), Event(b"2"), Event(b"3")]),
        (b"retry: 007\n\nretry: 000\n\n", [Event(b"", retry=7), Event(b"", retry=0)]),
        (b"retry: " + b"9" * 5000 + b"\n\n", [Event(b"", retry=10**15)]),
        (b"unknown: 1\nDATA: 2\ndata : 3\n\n", []),
        (b":\n\n" + KEEP_ALIVE + b"data: a:b\n\n", [Event(b"a:b")]),
        (b"data: a\r\rdata: b\r\n\r\ndata: c\n\r", [Event(b"a"), Event(b"b"), Event(b"c")]),
        (b"data: a\n\ndata: cut off\n", [Event(b"a")]),
        (b"", []),
    ],
)
@pytest.mark.parametrize("size", [None, 1, 2, 3])
def test_streams_are_read_as_the_standard_says(stream, expected, size):
    assert _read(stream, size=size) == expected


def test_an_event_ends_with_the_return_and_does_not_wait_for_a_newline():
    parser = EventParser(1000)
    assert parser.feed(b"data: a\r\n\r") == [Event(b"a")]
    assert parser.feed(b"") == []
    assert parser.feed(b"\ndata: b\r\n\r\n") == [Event(b"b")]


@pytest.mark.parametrize("size", [None, 1, 7])
def test_an_event_of_the_limit_passes_and_one_above_does_not(size):
    # Field names and inner line ends count: "data: 1234" and its newline, "data: 5" without.
    assert _read(b"data: 1234\ndata: 5\n\n" * 3, size=size, limit=18) == [Event(b"1234\n5")] * 3
    with pytest.raises(EventTooLong, match="more than 17 bytes"):
        _read(b"data: 1234\ndata: 5\n\n", size=size, limit=17)


def test_events_before_one_that_is_too_long_are_not_lost():
    parser = EventParser(20)
    with pytest.raises(EventTooLong) as caught:
        parser.feed(b"data: a\n\ndata: " + b"x" * 30)
    assert caught.value.events == [Event(b"a")]
    with pytest.raises(EventTooLong):
        parser.feed(b"data: b\n\n")


@pytest.mark.parametrize("flood", [b"data: x\n" * 100, b":" * 500, b"x" * 500, b"data\n" * 200, b"id: 1\n" * 200])
def test_nothing_grows_without_bound(flood):
    with pytest.raises(EventTooLong):
        _read(flood, size=10, limit=300)


def test_comments_do_not_add_up():
    assert _read(b": alive\n" * 1000 + b"data: a\n\n", limit=100) == [Event(b"a")]


_line = st.text(st.characters(blacklist_characters="\r\n\0", blacklist_categories=("Cs",)), max_size=8)
_events = st.lists(
    st.tuples(st.binary(max_size=20).filter(lambda data: b"\r" not in data), st.none() | _line, st.none() | _line),
    max_size=6,
)


@given(_events, st.integers(1, 30))
def test_what_is_written_is_read_again(events, size):
    stream = b"".join(encode_event(data, id=id, name=name) for data, id, name in events)
    expected, last = [], None
    for data, id, name in events:
        last = last if id is None else id
        expected.append(Event(data, name or "message", last))
    assert _read(stream, size=size) == expected


_soup = st.lists(
    st.sampled_from(
        [b"data", b": ", b":", b" ", b"\r", b"\n", b"\r\n", b"id", b"retry", b"event", b"7", b"\0", b"\xef\xbb\xbf"]
    ),
    max_size=40,
).map(b"".join)


@given(_soup, st.lists(st.integers(0, 80), max_size=6))
def test_any_chunking_gives_the_same_events(stream, cuts):
    parser = EventParser(1000)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    found = [one for a, b in pairwise(edges) for one in parser.feed(stream[a:b])]
    assert found == _read(stream)


def test_a_big_event_takes_linear_work():
    # Quadratic work on 20 MB in 5,000 pieces would take minutes.
    piece, parser = b"x" * 4096, EventParser(30_000_000)
    assert parser.feed(b"data: ") == []
    for _ in range(5000):
        assert parser.feed(piece) == []
    [found] = parser.feed(b"\n\n")
    assert len(found.data) == 4096 * 5000
