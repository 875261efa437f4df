"""The states of an event stream, as values; what a stream does is in test_event_stream.py."""

import pytest

from dovetail.transports.http.server.event_stream import TRANSITIONS, Event, EventStream, State
from dovetail.transports.http.server.resumable_stream import ResumableStream


class NoLog:
    async def append(self, entries: object, keep: int) -> int:
        raise AssertionError("nothing is stored in these tests")

    async def read(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        return []


def test_a_stream_ends_once_and_is_sealed_once() -> None:
    assert TRANSITIONS == {
        (State.OPEN, Event.FINISH): State.ENDED,
        (State.OPEN, Event.REOPEN_ENDED): State.SEALED,
        (State.ENDED, Event.SEAL): State.SEALED,
    }


def test_no_state_follows_a_sealed_stream() -> None:
    assert not [state for state, _ in TRANSITIONS if state is State.SEALED]


@pytest.mark.parametrize("stream", [EventStream(), ResumableStream("a", NoLog())])
def test_a_second_last_message_changes_nothing(stream: EventStream) -> None:
    stream.finish(b"1")
    stream.finish(b"2")
    stream.send(b"3")
    assert (stream.state, stream.sole_answer()) == (State.ENDED, b"1")


def test_a_log_with_a_closing_entry_is_sealed_from_the_start() -> None:
    stream = ResumableStream("a", NoLog())
    stream.restore(5, ended=True)
    assert (stream.state, stream.position, stream.ended) == (State.SEALED, 5, True)
