"""Sinks for lines behave the same whether the loop polls the descriptor or a thread writes to it."""

import asyncio
import os
import threading

import pytest

from dovetail.transports.base import HIGH_WATER
from dovetail.transports.line_sink import PolledSink, ThreadedSink
from dovetail.transports.line_source import ThreadedSource
from tests.support.raw import PATIENCE
from tests.support.waiting import settled, until
from tests.transports.collector import Collector
from tests.transports.pipes import Pipe, start

Sink = PolledSink | ThreadedSink
sinks = pytest.mark.parametrize("kind", [PolledSink, ThreadedSink])


def drain(fd: int, wanted: int) -> bytes:
    """Read from a pipe until there is enough."""
    data = b""
    while len(data) < wanted:
        data += os.read(fd, 1 << 20)
    return data


@sinks
class TestWriting:
    async def test_lines_are_written_in_order_each_with_its_newline(self, kind: type[Sink], pipe: Pipe) -> None:
        sink = kind(pipe.writing, lambda reason: None)
        for n in range(1000):
            sink.send(b"%d" % n)
        await sink.finish()
        assert os.read(pipe.reading, 1 << 20) == b"".join(b"%d\n" % n for n in range(1000))

    async def test_a_slow_reader_congests_the_sink_until_it_has_read(self, kind: type[Sink], pipe: Pipe) -> None:
        sink = kind(pipe.writing, lambda reason: None)
        assert not sink.congested
        await sink.drained()
        line = b"x" * (1 << 20)
        for _ in range(4):
            sink.send(line)
        assert sink.congested
        waiting = asyncio.create_task(sink.drained())
        await settled()
        assert not waiting.done()
        data = await asyncio.to_thread(drain, pipe.reading, 4 * len(line) + 4)
        assert data == (line + b"\n") * 4
        await asyncio.wait_for(waiting, PATIENCE)
        assert not sink.congested
        await sink.finish()

    async def test_a_reader_that_goes_away_is_reported_once(self, kind: type[Sink], pipe: Pipe) -> None:
        lost = Collector()
        sink = kind(pipe.writing, lost.disconnected)
        pipe.close(pipe.reading)
        sink.send(b"to nobody")
        await lost.end()
        assert lost.ends[0] is not None
        assert "writing failed" in lost.ends[0]
        for _ in range(100):
            sink.send(b"x" * HIGH_WATER)
        assert not sink.congested, "nothing is kept for nobody"
        await sink.drained()
        await sink.finish()
        assert len(lost.ends) == 1

    async def test_a_waiting_sender_goes_on_when_the_reader_goes_away(self, kind: type[Sink], pipe: Pipe) -> None:
        sink = kind(pipe.writing, lambda reason: None)
        for _ in range(4):
            sink.send(b"x" * (1 << 20))
        waiting = asyncio.create_task(sink.drained())
        await settled()
        pipe.close(pipe.reading)
        await asyncio.wait_for(waiting, PATIENCE)
        await sink.finish()

    async def test_finishing_waits_for_a_bounded_time(
        self, kind: type[Sink], pipe: Pipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dovetail.transports.line_sink._CLOSE_SECONDS", 0.1)
        sink = kind(pipe.writing, lambda reason: None)
        sink.send(b"x" * (4 << 20))
        async with asyncio.timeout(PATIENCE):
            await sink.finish()
        sink.send(b"too late")
        pipe.close(pipe.reading)
        # A thread that still writes would write to the pipe of the next test, which may get the same descriptor.
        await until(lambda: all(thread.name != "dovetail-write" for thread in threading.enumerate()))

    async def test_lines_of_one_turn_of_the_loop_are_written_together(self, kind: type[Sink], pipe: Pipe) -> None:
        sink = kind(pipe.writing, lambda reason: None)
        sink.send(b"one")
        sink.send(b"two")
        sink.flush()
        await sink.finish()
        assert os.read(pipe.reading, 100) == b"one\ntwo\n"


async def test_a_flush_writes_before_the_loop_turns(pipe: Pipe) -> None:
    sink = PolledSink(pipe.writing, lambda reason: None)
    sink.send(b"now")
    sink.flush()
    assert os.read(pipe.reading, 100) == b"now\n"
    sink.send(b"again")
    await settled()
    assert os.read(pipe.reading, 100) == b"again\n"


async def test_threads_of_a_source_and_a_sink_end_with_them(pipe: Pipe) -> None:
    names = {"dovetail-read", "dovetail-write"}
    before = set(threading.enumerate())
    _, seen = start(ThreadedSource, pipe.reading)
    sink = ThreadedSink(pipe.writing, lambda reason: None)
    assert names <= {thread.name for thread in set(threading.enumerate()) - before}
    sink.send(b"hello")
    await sink.finish()
    pipe.close(pipe.writing)
    await seen.end()
    assert seen.lines == [b"hello"]
    await until(lambda: not any(thread.name in names for thread in set(threading.enumerate()) - before))
