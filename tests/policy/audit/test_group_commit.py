"""Group commit: what is written together, what waits for a thread, and that the event loop never does."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dovetail.policy.audit import group_commit
from dovetail.policy.audit.group_commit import GroupCommit


class Log:
    """A log in memory whose lock another process may hold."""

    def __init__(self) -> None:
        self.groups: list[tuple[bytes, ...]] = []
        self.threads: list[str] = []
        self.free = threading.Event()
        self.free.set()
        self.problem = ""
        self.seconds = 0.0
        self.commits = GroupCommit(self._commit, self._try_commit, "test-writer")

    @property
    def contents(self) -> list[bytes]:
        return [content for group in self.groups for content in group]

    def _commit(self, contents: Sequence[bytes]) -> None:
        self.free.wait()
        if self.problem:
            raise OSError(self.problem)
        time.sleep(self.seconds)
        self.threads.append(threading.current_thread().name)
        self.groups.append(tuple(contents))

    def _try_commit(self, contents: Sequence[bytes]) -> bool:
        if not self.free.is_set():
            return False
        self._commit(contents)
        return True


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.free.set()
    made.commits.close()
    assert "test-writer" not in {thread.name for thread in threading.enumerate()}


async def test_items_of_one_turn_are_one_group_after_the_first(log: Log) -> None:
    await asyncio.gather(*(log.commits.write_async(b"%d" % n) for n in range(5)))
    assert log.groups == [(b"0",), (b"1", b"2", b"3", b"4")]


async def test_after_a_turn_with_many_items_those_of_the_next_turn_are_one_group(log: Log) -> None:
    await asyncio.gather(*(log.commits.write_async(b"a%d" % n) for n in range(5)))
    await asyncio.gather(*(log.commits.write_async(b"b%d" % n) for n in range(5)))
    assert log.groups[2:] == [(b"b0", b"b1", b"b2", b"b3", b"b4")]


async def test_after_a_turn_with_few_items_the_first_is_written_at_once_again(log: Log) -> None:
    await asyncio.gather(*(log.commits.write_async(b"a%d" % n) for n in range(5)))
    await log.commits.write_async(b"b")
    write = log.commits.write_async(b"c")
    with pytest.raises(StopIteration):
        write.send(None)
    assert log.groups[2:] == [(b"b",), (b"c",)]


async def test_an_item_that_can_wait_is_written_with_the_next_one(log: Log) -> None:
    log.commits.write_soon(b"outcome", lambda problem: None)
    assert log.groups == []
    await log.commits.write_async(b"decision")
    assert log.groups == [(b"outcome", b"decision")]


async def test_an_item_that_can_wait_is_written_in_the_next_turn_at_the_latest(log: Log) -> None:
    written: list[Exception | None] = []
    log.commits.write_soon(b"outcome", written.append)
    await asyncio.sleep(0)
    assert (log.groups, written) == ([(b"outcome",)], [None])


async def test_the_event_loop_runs_while_the_lock_is_held_elsewhere(log: Log) -> None:
    log.free.clear()
    writes = [asyncio.create_task(log.commits.write_async(b"%d" % n)) for n in range(3)]
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not any(write.done() for write in writes)
    log.free.set()
    await asyncio.gather(*writes)
    assert log.contents == [b"0", b"1", b"2"]
    assert set(log.threads) == {"test-writer"}


async def test_items_that_collect_while_the_thread_waits_are_written_in_their_order(log: Log) -> None:
    log.free.clear()
    first = asyncio.create_task(log.commits.write_async(b"0"))
    await asyncio.sleep(0.01)
    rest = [asyncio.create_task(log.commits.write_async(b"%d" % n)) for n in range(1, 9)]
    await asyncio.sleep(0.01)
    log.free.set()
    await asyncio.gather(first, *rest)
    assert log.contents == [b"%d" % n for n in range(9)]
    assert len(log.groups) < 9


async def test_a_failure_reaches_everyone_whose_item_was_in_the_group(log: Log) -> None:
    log.problem = "the disk is full"
    failed: list[Exception | None] = []
    log.commits.write_soon(b"0", failed.append)
    outcomes = await asyncio.gather(*(log.commits.write_async(b"%d" % n) for n in range(1, 4)), return_exceptions=True)
    assert [str(outcome) for outcome in (*failed, *outcomes)] == ["the disk is full"] * 4
    assert len({id(outcome) for outcome in outcomes}) == 3
    log.problem = ""
    await log.commits.write_async(b"4")
    assert log.contents == [b"4"]


async def test_an_item_whose_task_is_cancelled_is_written_all_the_same(log: Log) -> None:
    log.free.clear()
    write = asyncio.create_task(log.commits.write_async(b"0"))
    await asyncio.sleep(0.01)
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    log.free.set()
    await log.commits.write_async(b"1")
    assert log.contents == [b"0", b"1"]


async def test_two_slow_writes_in_a_row_leave_the_next_ones_to_the_thread(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "SLOW_SECONDS", 0.001)
    log.seconds = 0.002
    for n in range(3):
        await log.commits.write_async(b"%d" % n)
        await asyncio.sleep(0)
    assert log.threads == ["MainThread", "MainThread", "test-writer"]


def test_what_one_event_loop_left_behind_does_not_hold_up_the_next(log: Log) -> None:
    async def leave() -> None:
        await log.commits.write_async(b"0")
        log.commits.write_soon(b"1", lambda problem: None)

    async def go_on() -> None:
        await asyncio.wait_for(asyncio.gather(*(log.commits.write_async(b"%d" % n) for n in (2, 3))), 10)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    loop.close()
    asyncio.run(go_on())
    assert log.contents == [b"0", b"1", b"2", b"3"]


def test_a_blocking_write_comes_after_what_is_queued(log: Log) -> None:
    async def queue() -> None:
        log.commits.write_soon(b"0", lambda problem: None)
        log.commits.write(b"1")

    asyncio.run(queue())
    assert log.groups == [(b"0",), (b"1",)]


def test_an_item_can_be_written_after_the_end(log: Log, tmp_path: Path) -> None:
    log.free.clear()

    async def wait_for_the_thread() -> None:
        write = asyncio.create_task(log.commits.write_async(b"0"))
        await asyncio.sleep(0.01)
        log.free.set()
        await write
        log.commits.close()
        await log.commits.write_async(b"1")

    asyncio.run(wait_for_the_thread())
    assert log.contents == [b"0", b"1"]
