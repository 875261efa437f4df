"""The writing thread: shared commits, and a bad job that hurts only itself."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.storage.contract import StoreError, StoreUnavailable
from dovetail.storage.sqlite_writer import WriterThread


class Counted:
    """A writer on a table of numbers, with its commits counted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.commits = 0
        self.chore: Callable[[sqlite3.Connection], None] = lambda _: None
        self.writer = WriterThread(self.connect, self.work, lambda _: None)
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE numbers (n INTEGER UNIQUE)")
        connection.close()

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0.05)

    def work(self, connection: sqlite3.Connection) -> None:
        self.commits += 1
        self.chore(connection)

    def numbers(self) -> list[int]:
        connection = sqlite3.connect(self.path)
        try:
            return [n for (n,) in connection.execute("SELECT n FROM numbers ORDER BY n")]
        finally:
            connection.close()


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    counted = Counted(tmp_path / "numbers.db")
    yield counted
    asyncio.run(counted.writer.close())


def insert(connection: sqlite3.Connection, n: int) -> int:
    connection.execute("INSERT INTO numbers VALUES (?)", (n,))
    return n


async def test_jobs_that_wait_together_share_a_commit(counted: Counted) -> None:
    busy = threading.Event()
    first = asyncio.ensure_future(counted.writer.run(lambda _: busy.wait()))
    rest = [asyncio.ensure_future(counted.writer.run(insert, n)) for n in range(100)]
    await asyncio.sleep(0)
    busy.set()
    await first
    assert await asyncio.gather(*rest) == list(range(100))
    assert counted.commits <= 3
    assert counted.numbers() == list(range(100))


async def test_a_bad_job_hurts_only_itself(counted: Counted) -> None:
    busy = threading.Event()

    def half(connection: sqlite3.Connection) -> None:
        insert(connection, 1000)
        raise LookupError("half way")

    first = asyncio.ensure_future(counted.writer.run(lambda _: busy.wait()))
    jobs: list[asyncio.Future[Any]] = [asyncio.ensure_future(counted.writer.run(insert, n)) for n in (1, 2, 2, 3)]
    jobs.append(asyncio.ensure_future(counted.writer.run(half)))
    await asyncio.sleep(0)
    busy.set()
    await first
    outcomes = await asyncio.gather(*jobs, return_exceptions=True)
    assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [1, 2, 3]
    assert isinstance(outcomes[2], StoreError) and "UNIQUE" in str(outcomes[2])
    assert isinstance(outcomes[4], LookupError)
    assert counted.numbers() == [1, 2, 3], "what a failed job began is undone"


async def test_every_job_learns_that_a_commit_failed(counted: Counted) -> None:
    def fail(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk is full")

    counted.chore = fail
    outcomes = await asyncio.gather(*(counted.writer.run(insert, n) for n in range(5)), return_exceptions=True)
    assert all(isinstance(outcome, StoreError) and "disk is full" in str(outcome) for outcome in outcomes)
    assert counted.numbers() == []
    counted.chore = lambda _: None
    assert await counted.writer.run(insert, 1) == 1, "it goes on afterwards"


async def test_a_file_that_another_keeps_locked_is_a_clear_error(counted: Counted) -> None:
    other = counted.connect()
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StoreUnavailable, match="locked"):
            await counted.writer.run(insert, 1)
    finally:
        other.close()
    assert await counted.writer.run(insert, 2) == 2
    assert counted.numbers() == [2]


async def test_a_caller_that_gave_up_disturbs_nobody(counted: Counted) -> None:
    busy = threading.Event()
    first = asyncio.ensure_future(counted.writer.run(lambda _: busy.wait()))
    gone = asyncio.ensure_future(counted.writer.run(insert, 1))
    stays = asyncio.ensure_future(counted.writer.run(insert, 2))
    await asyncio.sleep(0)
    gone.cancel()
    busy.set()
    assert await stays == 2
    assert gone.cancelled()
    await first


async def test_closing_finishes_what_waits_and_ends_the_thread(counted: Counted) -> None:
    thread = await counted.writer.run(lambda _: threading.current_thread())
    jobs = [asyncio.ensure_future(counted.writer.run(insert, n)) for n in range(50)]
    await asyncio.sleep(0)
    await counted.writer.close()
    assert await asyncio.gather(*jobs) == list(range(50))
    assert not thread.is_alive()
