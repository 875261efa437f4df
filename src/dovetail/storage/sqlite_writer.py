"""One thread that writes to a database, so that no loop waits for a disk or for another process."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from .contract import StoreClosed, StoreError

logger = logging.getLogger("dovetail")

FORKED = "The store was in use before this process was forked; make a store in each process"

_AT_ONCE = 256
_AGAIN = 1.0

T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class _Outcome(NamedTuple):
    future: asyncio.Future[Any]
    result: Any
    problem: Exception | None


class Writer:
    """Runs jobs in the order they came; those that wait together share a transaction and its commit.

    `chore` is run within each transaction. `watch` is run after each, before anyone learns that it was
    committed, and says after how many seconds it wants to be run again if no job comes.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        chore: Callable[[sqlite3.Connection], None],
        watch: Callable[[sqlite3.Connection], float | None],
    ) -> None:
        self._connect = connect
        self._chore = chore
        self._watch = watch
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = 0
        self._closed = False

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Have `work(connection, *arguments)` done and committed; its changes are undone if it raises."""
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
            raise StoreError(f"The store failed: {problem}") from problem

    async def close(self) -> None:
        """Finish what is waiting, then end the thread; a second time only waits."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        if self._thread is not None and self._process == os.getpid():
            await asyncio.to_thread(self._thread.join)

    def _start(self) -> None:
        """Begin at the first job, not before: a store that is made before a fork works after it."""
        try:
            connection = self._connect()
        except sqlite3.Error as problem:
            raise StoreError(f"The store failed: {problem}") from problem
        # A daemon, because a program that never closes its store must still be able to end.
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
            try:
                wait = self._watch(connection)
            except Exception:
                logger.exception("The store could not be watched; trying again")
                wait = _AGAIN
            _tell(jobs, outcomes)
        connection.close()

    def _collect(self, wait: float | None) -> list[_Job | None]:
        """All that waits, up to a bound; nothing when the time is up."""
        batch: list[_Job | None] = []
        try:
            batch.append(self._jobs.get(timeout=wait))
            while len(batch) < _AT_ONCE:
                batch.append(self._jobs.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _commit(self, connection: sqlite3.Connection, jobs: list[_Job]) -> list[_Outcome]:
        working = False
        try:
            connection.execute("BEGIN IMMEDIATE")
            working = True
            outcomes = [_Outcome(job.future, job.work(connection, *job.arguments), None) for job in jobs]
            working = False
            self._chore(connection)
            connection.execute("COMMIT")
            return outcomes
        except Exception as problem:
            _undo(connection)
            if working and len(jobs) > 1:
                # One of them is bad. Each alone, so that it hurts only itself.
                return [outcome for job in jobs for outcome in self._commit(connection, [job])]
            return [_Outcome(job.future, None, problem) for job in jobs]


def _undo(connection: sqlite3.Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error:
        logger.exception("The store could not undo a transaction")


def _tell(jobs: list[_Job], outcomes: list[_Outcome]) -> None:
    """Wake every loop once, with all that it waits for."""
    loops: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        loops.setdefault(job.loop, []).append(outcome)
    for loop, mine in loops.items():
        try:
            loop.call_soon_threadsafe(_settle, mine)
        except RuntimeError:
            # The loop has ended, and with it everyone who waited.
            continue


def _settle(outcomes: list[_Outcome]) -> None:
    for future, result, problem in outcomes:
        if future.done():
            continue
        if problem is None:
            future.set_result(result)
        else:
            future.set_exception(problem)
