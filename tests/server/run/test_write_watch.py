"""The limits for connections whose peers do not read, with writers whose peers read as they are told."""

from __future__ import annotations

import asyncio

import pytest

from dovetail.server.run.write_watch import WriteWatch


class SlowWriter:
    """A transport in which bytes wait."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.aborted = asyncio.Event()

    def get_write_buffer_size(self) -> int:
        return self.size

    def abort(self) -> None:
        self.aborted.set()


async def test_a_writer_without_progress_is_aborted() -> None:
    watch, stalled, fast = WriteWatch(0.05), SlowWriter(100), SlowWriter(100)
    watch.add(stalled)
    watch.add(fast)
    watch.discard(fast)
    await stalled.aborted.wait()
    assert not fast.aborted.is_set()


async def test_a_writer_that_progresses_is_kept() -> None:
    watch, slow, stalled = WriteWatch(0.05), SlowWriter(1000), SlowWriter(100)
    watch.add(slow)
    for _ in range(3):
        stalled.aborted.clear()
        watch.add(stalled)
        slow.size -= 1
        await stalled.aborted.wait()  # takes as long as each has
        assert not slow.aborted.is_set()
    await slow.aborted.wait()


async def test_above_the_limit_the_writer_that_waited_longest_is_aborted() -> None:
    watch = WriteWatch(60.0, 250)
    writers = [SlowWriter(100) for _ in range(4)]
    for writer in writers[:2]:
        watch.add(writer)
    writers[0].size = 90  # its peer reads
    watch.add(writers[2])
    assert [writer.aborted.is_set() for writer in writers[:3]] == [False, True, False]
    watch.add(writers[3])
    assert [writer.aborted.is_set() for writer in writers] == [True, True, False, False], "the newest is the last"
    for writer in writers:
        watch.discard(writer)


async def test_bytes_that_were_read_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    watch = WriteWatch(60.0, 250)
    for _ in range(10):
        writer = SlowWriter(200)
        watch.add(writer)
        writer.size = 0
        assert not writer.aborted.is_set()
    assert not caplog.records
    few = SlowWriter(300)
    watch.add(few)
    assert few.aborted.is_set() and "do not read" in caplog.text
