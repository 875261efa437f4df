"""Sources of lines behave the same whether the loop polls the descriptor or a thread reads it."""

import asyncio
import contextlib
import os

import pytest

from dovetail.transports.line_source import PolledSource, ThreadedSource
from dovetail.wire.lines import TooLong
from tests.support.waiting import settled
from tests.transports.pipes import Pipe, Source, start

sources = pytest.mark.parametrize("kind", [PolledSource, ThreadedSource])


@sources
class TestReading:
    async def test_lines_are_delivered_whole_and_the_end_once(self, kind: type[Source], pipe: Pipe) -> None:
        _, seen = start(kind, pipe.reading)
        os.write(pipe.writing, b"one\ntw")
        await seen.count(1)
        os.write(pipe.writing, b"o\r\n\nthree")
        pipe.close(pipe.writing)
        await seen.end()
        assert seen.lines == [b"one", b"two", b"three"]
        assert seen.ends == [None]

    async def test_a_line_above_the_limit_is_reported_by_its_beginning_and_end(
        self, kind: type[Source], pipe: Pipe
    ) -> None:
        _, seen = start(kind, pipe.reading, limit=10)
        os.write(pipe.writing, b"x" * 5000 + b"\nshort\n")
        await seen.count(2)
        assert isinstance(seen.lines[0], TooLong)
        assert seen.lines[0].size == 5000
        assert seen.lines[1] == b"short"
        pipe.close(pipe.writing)
        await seen.end()

    async def test_pausing_within_a_chunk_takes_effect_at_once(self, kind: type[Source], pipe: Pipe) -> None:
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

    async def test_a_paused_source_leaves_input_in_the_pipe(self, kind: type[Source], pipe: Pipe) -> None:
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

    async def test_a_source_stopped_within_a_chunk_delivers_no_more(self, kind: type[Source], pipe: Pipe) -> None:
        source, seen = start(kind, pipe.reading)
        source.pause()
        os.write(pipe.writing, b"1\n2\n3\n")
        source.stop()
        source.resume()
        pipe.close(pipe.writing)
        await settled()
        assert (seen.lines, seen.ends) == ([], [])

    async def test_a_discarding_source_reads_and_delivers_nothing(self, kind: type[Source], pipe: Pipe) -> None:
        source, seen = start(kind, pipe.reading)
        source.pause()
        source.discard()
        await asyncio.to_thread(os.write, pipe.writing, b"x\n" * 1_000_000)
        pipe.close(pipe.writing)
        await seen.end()
        assert seen.lines == []

    async def test_a_descriptor_that_cannot_be_read_ends_the_source_with_a_reason(
        self, kind: type[Source], pipe: Pipe
    ) -> None:
        # The write end of a pipe: polled as readable once its reader has gone, and never readable.
        pipe.close(pipe.reading)
        _, seen = start(kind, pipe.writing)
        await seen.end()
        assert seen.ends[0] is not None
        assert "reading failed" in seen.ends[0]


async def test_available_input_can_be_read_without_waiting(pipe: Pipe) -> None:
    source, seen = start(PolledSource, pipe.reading)
    os.write(pipe.writing, b"x\n" * 5000 + b"last")
    source.read_available()
    assert seen.lines == [b"x"] * 5000 + [b"last"]
    assert seen.ends == [None]
    source.stop()
