"""The states of an event stream, as values; what a stream does is in test_event_stream.py."""

import pytest

from dovetail.transports.http.server.event_stream import TRANSITIONS, Event, EventStream, State
from dovetail.transports.http.server.resumable_stream import CLOSING, LogTaken, ResumableStream


class NoLog:
    async def append(self, entries: object, keep: int, *, close: bool) -> int:
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


class TakenLog:
    """A log that another process has ended, or writes now."""

    def __init__(self, *following: bytes) -> None:
        self.following = following

    async def append(self, entries: object, keep: int, *, close: bool) -> int:
        raise LogTaken

    async def read(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        return list(enumerate(self.following, after + 1))


async def test_a_stream_that_another_process_has_ended_ends_as_that_one_said() -> None:
    stream = ResumableStream("a", TakenLog(b'{"error": "unknown"}', CLOSING))
    stream.restore(1, ended=False)
    stream.send(b'{"result": "too late"}')
    await stream.store()
    assert (stream.ended, stream.position, stream.congested) == (True, 3, False)


async def test_a_stream_that_another_process_writes_ends_here_without_its_events() -> None:
    stream = ResumableStream("0", TakenLog(b"@7 {}"))
    stream.restore(1, ended=False)
    stream.send(b"@6 {}")
    await stream.store()
    assert (stream.ended, stream.position) == (True, 1)
