"""Sources and sinks behave the same whether the loop polls the descriptor or a thread waits for it."""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.transports.base import HIGH_WATER
from dovetail.transports.fd_io import (
    PolledSink,
    PolledSource,
    ThreadedSink,
    ThreadedSource,
    line_sink,
    line_source,
    pollable,
)
from dovetail.wire.lines import TooLong
from tests.support.raw import PATIENCE
from tests.support.waiting import settled, until
from tests.transports.collector import Collector

Source = PolledSource | ThreadedSource
Sink = PolledSink | ThreadedSink


class Pipe:
    """Both ends of a pipe, each closed at most once."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self._open = {self.reading, self.writing}

    def close(self, *ends: int) -> None:
        for end in self._open & set(ends):
            self._open.discard(end)
            os.close(end)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close(pipe.reading, pipe.writing)


sources = pytest.mark.parametrize("kind", [PolledSource, ThreadedSource])
sinks = pytest.mark.parametrize("kind", [PolledSink, ThreadedSink])


def start(kind: type[Source], fd: int, limit: int = 1000) -> tuple[Source, Collector]:
    """A source at work and the one who listens to it."""
    collector = Collector()
    source = kind(fd, limit, collector.take, collector.disconnected)
    source.start()
    return source, collector


@sources
class TestReading:
    async def test_lines_come_whole_and_the_end_once(self, kind: type[Source], pipe: Pipe) -> None:
        _, seen = start(kind, pipe.reading)
        os.write(pipe.writing, b"one\ntw")
        await seen.count(1)
        os.write(pipe.writing, b"o\r\n\nthree")
        pipe.close(pipe.writing)
        await seen.end()
        assert seen.lines == [b"one", b"two", b"three"]
        assert seen.ends == [None]

    async def test_a_line_above_the_limit_is_told_by_its_ends(self, kind: type[Source], pipe: Pipe) -> None:
        _, seen = start(kind, pipe.reading, limit=10)
        os.write(pipe.writing, b"x" * 5000 + b"\nshort\n")
        await seen.count(2)
        assert isinstance(seen.lines[0], TooLong)
        assert seen.lines[0].size == 5000
        assert seen.lines[1] == b"short"
        pipe.close(pipe.writing)
        await seen.end()

    async def test_a_pause_in_the_midst_of_a_chunk_is_obeyed_at_once(self, kind: type[Source], pipe: Pipe) -> None:
        source, seen = start(kind, pipe.reading)
        seen.on_line = lambda line: source.pause() if line in (b"2", b"4") else None
        os.write(pipe.writing, b"1\n2\n3\n4\n5\n")
        await seen.count(2)
        await settled()
        assert seen.lines == [b"1", b"2"]
        source.resume()
        await seen.count(4)
        await settled()
        assert seen.lines == [b"1", b"2", b"3", b"4"]
        source.resume()
        pipe.close(pipe.writing)
        await seen.end()
        assert seen.lines == [b"1", b"2", b"3", b"4", b"5"]

    async def test_the_end_waits_for_the_lines_before_it(self, kind: type[Source], pipe: Pipe) -> None:
        source, seen = start(kind, pipe.reading)
        seen.on_line = lambda line: source.pause()
        os.write(pipe.writing, b"1\n2")
        pipe.close(pipe.writing)
        await seen.count(1)
        await settled()
        assert seen.ends == []
        source.resume()
        await seen.count(2)
        await settled()
        assert seen.ends == [], "paused again before the end"
        source.resume()
        await seen.end()

    async def test_what_is_not_read_stays_in_the_pipe(self, kind: type[Source], pipe: Pipe) -> None:
        source, seen = start(kind, pipe.reading)
        source.pause()
        os.set_blocking(pipe.writing, False)
        written = 0
        with contextlib.suppress(BlockingIOError):
            while written < 50_000_000:
                written += os.write(pipe.writing, b"x" * 999 + b"\n")
                await asyncio.sleep(0)
        assert written < 50_000_000, "the writer has to wait"
        assert not seen.lines
        source.resume()
        await seen.count(written // 1000)
        source.stop()
        pipe.close(pipe.writing)

    async def test_a_flood_of_short_lines_leaves_the_loop_its_turns(self, kind: type[Source], pipe: Pipe) -> None:
        _, seen = start(kind, pipe.reading)
        seen_at_turn: list[int] = []
        os.write(pipe.writing, b"x\n" * 30_000)
        while len(seen.lines) < 30_000:
            await asyncio.sleep(0)
            seen_at_turn.append(len(seen.lines))
        longest = max(after - before for before, after in zip([0, *seen_at_turn], seen_at_turn, strict=False))
        assert longest < 3000
        pipe.close(pipe.writing)
        await seen.end()

    async def test_stopping_in_the_midst_of_a_chunk_ends_it(self, kind: type[Source], pipe: Pipe) -> None:
        source, seen = start(kind, pipe.reading)
        source.pause()
        os.write(pipe.writing, b"1\n2\n3\n")
        source.stop()
        source.resume()
        pipe.close(pipe.writing)
        await settled()
        assert (seen.lines, seen.ends) == ([], [])

    async def test_dropping_reads_on_and_looks_at_nothing(self, kind: type[Source], pipe: Pipe) -> None:
        source, seen = start(kind, pipe.reading)
        source.pause()
        source.drop()
        await asyncio.to_thread(os.write, pipe.writing, b"x\n" * 1_000_000)
        pipe.close(pipe.writing)
        await seen.end()
        assert seen.lines == []

    async def test_a_descriptor_that_cannot_be_read_is_an_end_with_a_reason(
        self, kind: type[Source], pipe: Pipe
    ) -> None:
        # The write end of a pipe: polled as readable once its reader has gone, and never readable.
        pipe.close(pipe.reading)
        _, seen = start(kind, pipe.writing)
        await seen.end()
        assert seen.ends[0] is not None
        assert "reading failed" in seen.ends[0]


async def test_what_has_arrived_can_be_read_to_its_end_without_waiting(pipe: Pipe) -> None:
    source, seen = start(PolledSource, pipe.reading)
    os.write(pipe.writing, b"x\n" * 5000 + b"last")
    source.read_rest()
    assert seen.lines == [b"x"] * 5000 + [b"last"]
    assert seen.ends == [None]
    source.stop()


def drain(fd: int, wanted: int) -> bytes:
    """Read from a pipe until there is enough."""
    data = b""
    while len(data) < wanted:
        data += os.read(fd, 1 << 20)
    return data


@sinks
class TestWriting:
    async def test_lines_go_out_in_order_each_with_its_newline(self, kind: type[Sink], pipe: Pipe) -> None:
        sink = kind(pipe.writing, lambda reason: None)
        for n in range(1000):
            sink.send(b"%d" % n)
        await sink.finish()
        assert os.read(pipe.reading, 1 << 20) == b"".join(b"%d\n" % n for n in range(1000))

    async def test_a_reader_that_lags_is_congestion_and_reading_ends_it(self, kind: type[Sink], pipe: Pipe) -> None:
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

    async def test_a_reader_that_goes_away_is_told_once(self, kind: type[Sink], pipe: Pipe) -> None:
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

    async def test_waiting_ends_when_the_reader_goes_away(self, kind: type[Sink], pipe: Pipe) -> None:
        sink = kind(pipe.writing, lambda reason: None)
        for _ in range(4):
            sink.send(b"x" * (1 << 20))
        waiting = asyncio.create_task(sink.drained())
        await settled()
        pipe.close(pipe.reading)
        await asyncio.wait_for(waiting, PATIENCE)

    async def test_finishing_does_not_wait_for_ever(
        self, kind: type[Sink], pipe: Pipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dovetail.transports.fd_io._CLOSE_SECONDS", 0.1)
        sink = kind(pipe.writing, lambda reason: None)
        sink.send(b"x" * (4 << 20))
        async with asyncio.timeout(PATIENCE):
            await sink.finish()
        sink.send(b"too late")
        pipe.close(pipe.reading)

    async def test_what_was_given_before_the_loop_turned_is_written_with_one_call(
        self, kind: type[Sink], pipe: Pipe
    ) -> None:
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


async def test_threads_end_with_their_stream(pipe: Pipe) -> None:
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


class TestChoosing:
    """Pipes and sockets are polled; everything else, and what stderr shares, gets a thread."""

    def test_a_pipe_is_polled(self, pipe: Pipe) -> None:
        assert pollable(pipe.reading) and pollable(pipe.writing)

    def test_a_socket_is_polled(self) -> None:
        left, right = socket.socketpair()
        with left, right:
            assert pollable(left.fileno())

    def test_a_file_is_not(self, tmp_path: Path) -> None:
        with (tmp_path / "file").open("wb") as file:
            assert not pollable(file.fileno())

    def test_a_terminal_is_not(self) -> None:
        ours, theirs = os.openpty()
        assert not pollable(theirs)
        os.close(ours)
        os.close(theirs)

    def test_what_stderr_shares_is_not(self, pipe: Pipe, capfd: pytest.CaptureFixture[str]) -> None:
        kept = os.dup(2)
        try:
            os.dup2(pipe.writing, 2)
            assert not pollable(pipe.writing)
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        assert pollable(pipe.writing)

    async def test_the_kind_follows(self, pipe: Pipe, tmp_path: Path) -> None:
        assert isinstance(line_sink(pipe.writing, lambda reason: None), PolledSink)
        seen = Collector()
        assert isinstance(line_source(pipe.reading, 10, seen.take, seen.disconnected), PolledSource)
        with (tmp_path / "file").open("wb") as file:
            sink = line_sink(file.fileno(), lambda reason: None)
            assert isinstance(sink, ThreadedSink)
            sink.send(b"line")
            await sink.finish()
        with (tmp_path / "file").open("rb") as file:
            source = line_source(file.fileno(), 10, seen.take, seen.disconnected)
            assert isinstance(source, ThreadedSource)
            source.start()
            await seen.end()
        assert seen.lines == [b"line"]
