"""One stream of messages: what is fed to whom, what is kept, and when whoever writes has to wait.

How much of a stream is remembered: within bounds what was read, and always what was not.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from dovetail.transports.base import HIGH_WATER
from dovetail.transports.http.server import event_stream, resumable_stream
from dovetail.transports.http.server.event_stream import EventStream
from dovetail.transports.http.server.response import HttpResponse
from dovetail.transports.http.server.resumable_stream import (
    CLOSING,
    MAX_BYTES,
    MAX_EVENTS,
    OPENING,
    ResumableStream,
    Retention,
)
from dovetail.transports.http.server.timeout_wheel import TimeoutWheel
from tests.support.waiting import settled, until


class Log:
    """A log that takes a few turns of the loop for everything."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.gone = 0
        """How many of the oldest have been let go of."""

    async def append(self, entries: Sequence[bytes], keep: int, *, close: bool) -> int:
        await settled(3)
        self.entries += entries
        self.gone = max(self.gone, len(self.entries) - keep)
        await settled(3)
        return len(self.entries)

    async def read(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        await settled(3)
        after = max(after, self.gone)
        return list(enumerate(self.entries, 1))[after : after + limit]


class Reader:
    """A connection: what arrived on it, and a switch with which it stalls."""

    def __init__(self) -> None:
        self.raw = b""
        self.ended = False
        self.reads = asyncio.Event()
        self.reads.set()
        self.reply = HttpResponse(self._send)

    async def _send(self, event: Any) -> None:
        await self.reads.wait()
        if event["type"] == "http.response.body":
            self.raw += event["body"]
            self.ended = not event["more_body"]

    @property
    def events(self) -> list[dict[str, str]]:
        """The events so far, by field; comments are left out."""
        found = [dict(line.split(": ", 1) for line in block.split("\n")) for block in self._blocks() if block[0] != ":"]
        return [event for event in found if event]

    @property
    def data(self) -> list[str]:
        return [event["data"] for event in self.events if event.get("data")]

    @property
    def comments(self) -> int:
        return sum(block[0] == ":" for block in self._blocks())

    @property
    def last(self) -> int:
        """The position of the last event."""
        return int(self.events[-1]["id"].split("_")[1])

    def _blocks(self) -> list[str]:
        text = self.raw.decode()
        assert text == "" or text.endswith("\n\n")
        return [block for block in text.split("\n\n") if block]


@contextlib.asynccontextmanager
async def feeding(stream: EventStream, after: int = 0, **options: Any) -> AsyncIterator[Reader]:
    """Somebody who reads a stream until the end of the block, or of the stream."""
    reader = Reader()
    task = asyncio.create_task(stream.write_to(reader.reply, after, **options))
    try:
        yield reader
    finally:
        reader.reads.set()
        reader.reply.gone = True
        stream.wake()
        await task


class TestWithoutALog:
    async def test_messages_arrive_in_order_and_the_last_one_ends_it(self) -> None:
        stream = EventStream()
        async with feeding(stream) as reader:
            for line in (b"1", b"2"):
                stream.send(line)
                await settled()
            assert reader.data == ["1", "2"]
            stream.finish(b"3")
            await settled()
            assert (reader.data, reader.ended) == (["1", "2", "3"], True)
            assert all("id" not in event for event in reader.events)

    async def test_nothing_comes_after_the_last_message(self) -> None:
        stream = EventStream()
        async with feeding(stream) as reader:
            stream.finish(b"1")
            stream.send(b"2")
            stream.finish(b"3")
            await settled()
            assert reader.data == ["1"]

    async def test_an_end_without_a_message_is_an_end(self) -> None:
        stream = EventStream()
        async with feeding(stream) as reader:
            stream.finish(None)
            await settled()
            assert (reader.raw, reader.ended) == (b"", True)

    async def test_the_first_event_may_be_given(self) -> None:
        stream = EventStream()
        stream.finish(b"1")
        async with feeding(stream, first=b"event: endpoint\ndata: /x\n\n") as reader:
            await settled()
            assert [event["data"] for event in reader.events] == ["/x", "1"]

    async def test_silence_is_filled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(event_stream, "KEEP_ALIVE_SECONDS", 0.005)
        async with feeding(EventStream()) as reader:
            await until(lambda: reader.comments >= 2)

    async def test_a_connection_that_is_gone_is_left_alone(self) -> None:
        stream = EventStream()
        async with feeding(stream) as reader:
            await settled()
            reader.reply.gone = True
            stream.wake()
            await settled()
            assert not stream.connected


class TestQuiet:
    """For a client that gets one JSON value."""

    async def test_all_but_the_last_message_is_left_out(self) -> None:
        stream = EventStream(quiet=True)
        stream.send(b"1")
        assert stream.sole_answer() is None
        stream.finish(b"2")
        assert stream.sole_answer() == b"2"

    async def test_who_waits_is_told_of_the_answer(self) -> None:
        stream = EventStream(quiet=True)
        waiting = asyncio.create_task(stream.first_message(None))
        stream.send(b"1")
        await settled()
        assert not waiting.done()
        stream.finish(b"2")
        await waiting


class TestTheFirstMessage:
    async def test_an_answer_that_is_alone_needs_no_events(self) -> None:
        stream = EventStream()
        stream.finish(b"1")
        assert stream.sole_answer() == b"1"

    async def test_one_that_is_not_alone_needs_them(self) -> None:
        stream = EventStream()
        stream.send(b"1")
        stream.finish(b"2")
        assert stream.sole_answer() is None

    async def test_somebody_may_want_to_know_of_the_first(self) -> None:
        stream = EventStream()
        told: list[int] = []
        stream.on_first = lambda: told.append(1)
        stream.send(b"1")
        stream.send(b"2")
        stream.finish(b"3")
        assert told == [1]

    async def test_who_waits_for_it_does_not_wait_for_ever(self) -> None:
        stream = EventStream()
        await stream.first_message(TimeoutWheel(0.001, lambda change: change.set_result(None)))
        stream.send(b"1")
        await stream.first_message(None)


class TestPressure:
    async def test_whoever_writes_waits_for_a_reader_that_stalls(self) -> None:
        stream = EventStream()
        async with feeding(stream) as reader:
            reader.reads.clear()
            line = b"x" * 1000
            while not stream.congested:
                stream.send(line)
                await asyncio.sleep(0)
            assert stream._unread <= HIGH_WATER + len(line)
            waiting = asyncio.create_task(stream.drained())
            await settled()
            assert not waiting.done()
            reader.reads.set()
            await waiting
            assert not stream.congested

    async def test_nobody_waits_when_the_stream_has_ended(self) -> None:
        stream = EventStream()
        stream.send(b"x" * (HIGH_WATER + 1))
        waiting = asyncio.create_task(stream.drained())
        await settled()
        assert not waiting.done()
        stream.finish(None)
        await waiting

    async def test_reading_it_a_second_time_does_not_count(self) -> None:
        stream = ResumableStream("s", Log())
        await stream.open_log()
        stream.send(b"x" * 1000)
        for _ in range(3):
            async with feeding(stream, 1) as reader:
                await until(lambda reader=reader: reader.data)
        assert stream._unread == 0
        stream.send(b"x" * 1000)
        assert stream._unread == 1000

    async def test_a_stream_that_nobody_ever_read_keeps_the_newest(self) -> None:
        stream = ResumableStream("0", Log())
        for number in range(100):
            stream.send(b"%d" % number)
            stream.trim(10)
        async with feeding(stream) as reader:
            await until(lambda: len(reader.data) == 10)
            assert reader.data == [str(number) for number in range(90, 100)]


class TestWithALog:
    async def test_events_have_ids_that_name_stream_and_position(self) -> None:
        log = Log()
        stream = ResumableStream("abc", log, [7])
        await stream.open_log()
        stream.send(b"1")
        stream.finish(b"2")
        async with feeding(stream) as reader:
            await until(lambda: reader.ended)
            assert [event["id"] for event in reader.events] == ["abc_2", "abc_3"]
        assert log.entries == [OPENING + b"[7]", b"1", b"2", CLOSING]

    async def test_it_is_read_again_from_any_position(self) -> None:
        stream = ResumableStream("abc", Log())
        await stream.open_log()
        for number in range(250):
            stream.send(b"%d" % number)
        stream.finish(b"end")
        await stream.store()
        for after in (0, 1, 2, 100, 251, 252):
            async with feeding(stream, after) as reader:
                await until(lambda reader=reader: reader.ended)
                assert reader.data == [*map(str, range(max(after, 1) - 1, 250)), "end"][: None if after < 252 else 0]

    async def test_what_comes_while_nobody_reads_is_kept(self) -> None:
        log = Log()
        stream = ResumableStream("abc", log)
        await stream.open_log()
        keeping = asyncio.create_task(stream.store_until_read())
        stream.send(b"1")
        await until(lambda: len(log.entries) == 2)
        stream.finish(b"2")
        await keeping
        assert log.entries[1:] == [b"1", b"2", CLOSING]

    async def test_keeping_ends_when_somebody_reads(self) -> None:
        stream = ResumableStream("abc", Log())
        await stream.open_log()
        keeping = asyncio.create_task(stream.store_until_read())
        await settled()
        async with feeding(stream):
            await keeping

    async def test_a_log_of_another_life_is_taken_up(self) -> None:
        log = Log()
        log.entries = [OPENING + b"[]", b"1", b"2"]
        stream = ResumableStream("abc", log)
        stream.restore(3, ended=False)
        async with feeding(stream, 2) as reader:
            stream.finish(b"3")
            await until(lambda: reader.ended)
            assert reader.data == ["2", "3"]

    async def test_the_priming_event_names_a_place_to_come_back_to(self) -> None:
        stream = ResumableStream("abc", Log())
        await stream.open_log()
        stream.send(b"1")
        async with feeding(stream, first=stream.priming_event(0)) as reader:
            await until(lambda: len(reader.events) == 2)
            assert reader.events[0] == {"id": "abc_1", "data": ""}
            place = int(reader.events[0]["id"].split("_")[1])
        async with feeding(stream, place) as reader:
            await until(lambda: reader.data == ["1"])

    async def test_a_connection_can_be_let_go_and_the_stream_goes_on(self) -> None:
        stream = ResumableStream("abc", Log())
        await stream.open_log()
        stream.send(b"1")
        async with feeding(stream) as reader:
            await until(lambda: reader.data)
            stream.disconnect(1.5)
            await until(lambda: reader.ended)
            assert reader.events[-1] == {"retry": "1500", "id": "abc_2", "data": ""}
            last = reader.last
        assert not stream.ended
        stream.finish(b"2")
        async with feeding(stream, last) as reader:
            await until(lambda: reader.ended)
            assert reader.data == ["2"]

    async def test_of_several_connections_the_last_is_fed_and_nothing_is_said_twice(self) -> None:
        stream = ResumableStream("abc", Log())
        await stream.open_log()
        async with feeding(stream) as first:
            stream.send(b"1")
            await until(lambda: first.data == ["1"])
            async with feeding(stream, stream.delivered) as second:
                stream.send(b"2")
                await until(lambda: second.data == ["2"])
            stream.send(b"3")
            await until(lambda: first.data == ["1", "3"])

    async def test_what_has_been_read_is_let_go_of_in_time_but_never_what_has_not(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(resumable_stream, "MAX_BYTES", 1000)
        log = Log()
        stream = ResumableStream("abc", log, [7])
        await stream.open_log()
        async with feeding(stream) as reader:
            for number in range(100):
                stream.send(b"%100d" % number)
                await until(lambda number=number: len(reader.data) > number)
            last = reader.last
        assert log.gone > 80
        assert [entry for entry in log.entries[log.gone :] if entry.startswith(OPENING)] == [OPENING + b"[7]"]
        keeping = asyncio.create_task(stream.store_until_read())
        for number in range(100, 200):
            stream.send(b"%100d" % number)
            await settled()
        stream.finish(b"end")
        await keeping
        async with feeding(stream, last) as reader:
            await until(lambda: reader.ended)
            assert [line.strip() for line in reader.data] == [*map(str, range(100, 200)), "end"]

    async def test_without_a_log_nobody_is_let_go(self) -> None:
        stream = EventStream()
        async with feeding(stream) as reader:
            await settled()
            stream.disconnect(1)
            await settled()
            assert not reader.ended


@pytest.mark.parametrize("seed", range(20))
async def test_nothing_is_lost_and_nothing_comes_twice_while_live_events_meet_the_replay(seed: int) -> None:
    """A writer that never waits, and a reader that breaks off and comes back at random, at every turn of the loop."""
    chance = random.Random(seed)
    stream = ResumableStream("abc", Log())
    await stream.open_log()
    count = 400

    async def write() -> None:
        for number in range(count):
            stream.send(b"%d" % number)
            for _ in range(chance.choice((0, 0, 0, 1, 5))):
                await asyncio.sleep(0)
        stream.finish(b"end")

    writing = asyncio.create_task(write())
    got: list[str] = []
    after, keeping = 0, None
    while "end" not in got:
        if keeping is not None and chance.random() < 0.5:
            await settled(chance.randrange(10))
        async with feeding(stream, after) as reader:
            await settled(chance.randrange(40))
        got += reader.data
        after = reader.last if reader.events else after
        if not stream.ended:
            keeping = asyncio.create_task(stream.store_until_read())
    await writing
    if keeping is not None:
        await keeping
    assert got == [*map(str, range(count)), "end"]


def test_a_short_stream_is_kept_whole() -> None:
    retention = Retention()
    assert retention.keep([10, 20], unread=2) == 2
    assert retention.keep([30], unread=0) == 3


def test_of_what_was_read_the_newest_bytes_are_kept() -> None:
    retention = Retention()
    assert retention.keep([MAX_BYTES // 2] * 4, unread=0) == 2


def test_of_what_was_read_the_newest_events_are_kept() -> None:
    assert Retention().keep([1] * (MAX_EVENTS + 7), unread=0) == MAX_EVENTS


def test_what_nobody_has_read_is_kept_whatever_its_size() -> None:
    retention = Retention()
    assert retention.keep([MAX_BYTES] * 3, unread=3) == 3
    assert retention.keep([1], unread=1) == 1


def test_the_newest_event_is_kept_however_large() -> None:
    assert Retention().keep([MAX_BYTES * 2], unread=0) == 1
