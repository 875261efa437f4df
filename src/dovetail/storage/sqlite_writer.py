"""The writing thread of a SQLite store: no event loop waits for the disk or for another process."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from .contract import StoreClosed, StoreError, StoreUnavailable
from .sqlite_file import BUSY_LOCK_SECONDS, JOB_LOCK_SECONDS, is_busy

logger = logging.getLogger("dovetail")

FORKED = "The store was used before this process was forked; create one in each process"

_MAX_BATCH = 256
_RETRY_SECONDS = 1.0

T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class _JobOutcome(NamedTuple):
    future: asyncio.Future[Any]
    result: Any
    problem: Exception | None


class WriterThread:
    """Runs jobs in their order on one thread; jobs that wait at the same time share a transaction.

    `prune` is run in each transaction. `after_commit` is run after each transaction, before its callers are resumed,
    and returns the seconds after which to run it again if there is no job.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        prune: Callable[[sqlite3.Connection], None],
        after_commit: Callable[[sqlite3.Connection], float | None],
    ) -> None:
        self._connect = connect
        self._prune = prune
        self._after_commit = after_commit
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = 0
        self._closed = False
        self._is_locked = False
        """The last transaction could not begin; used by the thread only."""

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` and commit; its changes are rolled back if it raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:
            if self._closed:
                raise StoreClosed("The store is closed")
            if self._thread is None:
                self._start()
            elif self._process != os.getpid():
                raise StoreError(FORKED)
            self._jobs.put(_Job(work, arguments, loop, future))
        try:
            return await future
        except sqlite3.Error as problem:
            raise store_error(problem) from problem

    async def close(self) -> None:
        """Finish the waiting jobs and end the thread; a second call only waits."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        if self._thread is not None and self._process == os.getpid():
            await asyncio.to_thread(self._thread.join)

    def _start(self) -> None:
        """Start the thread. Done at the first job, so that a store created before a fork works after it."""
        try:
            connection = self._connect()
        except sqlite3.Error as problem:
            raise store_error(problem) from problem
        # A daemon thread, because a program that never closes its store must still be able to exit.
        self._thread = threading.Thread(target=self._work, args=(connection,), name="dovetail-store", daemon=True)
        self._process = os.getpid()
        self._thread.start()

    def _work(self, connection: sqlite3.Connection) -> None:
        wait: float | None = None
        ended = False
        while not ended:
            batch = self._collect(wait)
            jobs = [job for job in batch if job is not None]
            ended = len(jobs) < len(batch)
            outcomes = self._commit(connection, jobs) if jobs else []
            if jobs and self._is_locked:
                # Nothing was committed, so that nobody has to wait for what follows a commit.
                _set_results(jobs, outcomes)
                jobs, outcomes = [], []
            try:
                wait = self._after_commit(connection)
            except Exception as problem:
                if not is_busy(problem):
                    logger.exception("The store could not be checked for new entries; trying again")
                wait = _RETRY_SECONDS
            _set_results(jobs, outcomes)
        connection.close()

    def _collect(self, wait: float | None) -> list[_Job | None]:
        """All waiting jobs, up to a bound; none after `wait` seconds without a job."""
        batch: list[_Job | None] = []
        try:
            batch.append(self._jobs.get(timeout=wait))
            while len(batch) < _MAX_BATCH:
                batch.append(self._jobs.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _commit(self, connection: sqlite3.Connection, jobs: list[_Job]) -> list[_JobOutcome]:
        working = False
        try:
            self._begin(connection)
            working = True
            outcomes = [_JobOutcome(job.future, job.work(connection, *job.arguments), None) for job in jobs]
            working = False
            self._prune(connection)
            connection.execute("COMMIT")
            return outcomes
        except Exception as problem:
            _rollback(connection)
            if working and len(jobs) > 1:
                # One of the jobs failed. Run each in its own transaction, so that only that one fails.
                return [outcome for job in jobs for outcome in self._commit(connection, [job])]
            return [_JobOutcome(job.future, None, problem) for job in jobs]

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction, or fail if another process holds the lock for too long."""
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            self._set_locked(connection, locked=True)
            raise
        self._set_locked(connection, locked=False)

    def _set_locked(self, connection: sqlite3.Connection, *, locked: bool) -> None:
        if locked != self._is_locked:
            self._is_locked = locked
            seconds = BUSY_LOCK_SECONDS if locked else JOB_LOCK_SECONDS
            connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


def store_error(problem: sqlite3.Error) -> StoreError:
    """The error of a store for an error of SQLite."""
    if is_busy(problem):
        return StoreUnavailable(f"Another process kept the file of the store locked: {problem}")
    return StoreError(f"The store failed: {problem}")


def _rollback(connection: sqlite3.Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error:
        logger.exception("The store could not roll back a transaction")


def _set_results(jobs: list[_Job], outcomes: list[_JobOutcome]) -> None:
    """Set the results, with one call for each event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[_JobOutcome]] = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        loops.setdefault(job.loop, []).append(outcome)
    for loop, outcomes_of_loop in loops.items():
        try:
            loop.call_soon_threadsafe(_set_futures, outcomes_of_loop)
        except RuntimeError:
            # The event loop was closed, and nothing waits any more.
            continue


def _set_futures(outcomes: list[_JobOutcome]) -> None:
    for future, result, problem in outcomes:
        if future.done():
            continue
        if problem is None:
            future.set_result(result)
        else:
            future.set_exception(problem)
