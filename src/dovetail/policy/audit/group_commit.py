"""Group commit: items that are submitted together are written together, with one lock, one append and one new head.

An event loop must not wait for a lock that another process holds, nor for a slow disk; but handing an item to a thread
and waiting for it costs several times what the write does. So while the lock is free and the disk is quick items are
written on the event loop: the first of a turn at once, with those that can wait, and the rest of the turn as one group
at its end. Where many came in the turn before, the first waits for the group too. Otherwise they are queued for a
thread; while that writes one group, the next one collects.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, TypeAlias

MAX_GROUP = 256
"""Items that are written with one lock: other processes wait for it for two seconds at most."""

MANY = 4
"""Items of a turn after which the first of the next turn is not written alone: others are likely to follow it."""

SLOW_SECONDS = 0.05
"""After two writes in a row that take longer the disk is slow, or memory scarce: the thread does the next ones."""
RETRY_SECONDS = 10.0
"""For how long the thread does them, before one is tried on the event loop again."""

OnWritten: TypeAlias = "Callable[[Exception | None], None]"
"""Takes the error if an item could not be written; called in the thread that has, or has not, written it."""


class _Item(NamedTuple):
    content: bytes
    on_written: OnWritten


class GroupCommit:
    """A queue of items that are written in the order in which they came.

    `commit` writes all items of a group, or raises and has written none of them. `try_commit` does the same, and
    returns False without writing anything where it would have to wait. Neither is called while another one runs. The
    thread starts with the first item that has to wait and ends with `close`.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[bytes]], None],
        try_commit: Callable[[Sequence[bytes]], bool],
        thread_name: str,
    ) -> None:
        self._commit = commit
        self._try_commit = try_commit
        self._thread_name = thread_name
        self._writing = threading.Lock()
        self._state = threading.Lock()
        """Guards the attributes below; never held while anything waits."""
        self._pending: list[_Item] = []
        self._flush_loop: asyncio.AbstractEventLoop | None = None
        """The event loop at the end of whose turn `_flush` is called."""
        self._has_written = False
        """True if an item was written in this turn of that loop: the next ones are left for its end."""
        self._expects_many = False
        """True if many items were left for the end of the turn before."""
        self._is_woken = False
        self._wake_ups: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._slow_writes = 0
        self._slow_until = 0.0

    def write(self, content: bytes) -> None:
        """Write an item in the calling thread, after those that are queued; it may wait."""
        with self.drained():
            self._commit((content,))

    async def write_async(self, content: bytes) -> None:
        """Write an item, after those that are queued, and wait for that; the event loop does not.

        The item is written even if the task that waits is cancelled.
        """
        loop = asyncio.get_running_loop()
        writes_now = not self._expects_many and (not self._has_written or self._flush_loop is not loop)
        if writes_now and self._try_write(content):
            self._schedule_flush(loop)
            self._has_written = True
            return
        future: asyncio.Future[None] = loop.create_future()
        self._queue(_Item(content, functools.partial(_resolve, loop, future)))
        if writes_now:
            self._wake_thread()
        else:
            self._schedule_flush(loop)
        await future

    def write_soon(self, content: bytes, on_written: OnWritten) -> None:
        """Queue an item: it is written together with the next one, or in the next turn of the event loop."""
        self._queue(_Item(content, on_written))
        self._schedule_flush(asyncio.get_running_loop())

    @contextlib.contextmanager
    def drained(self) -> Generator[None]:
        """Write what is queued; while the `with` lasts nothing else is written."""
        with self._writing:
            while group := self._next_group():
                self._write_group(group)
            yield

    def close(self) -> None:
        """End the thread; the next item that has to wait starts another one."""
        with self._state:
            thread, self._thread = self._thread, None
            wake_ups, self._wake_ups = self._wake_ups, queue.SimpleQueue()
            self._is_woken = False
        if thread is not None:
            wake_ups.put(False)
            thread.join()

    def _schedule_flush(self, loop: asyncio.AbstractEventLoop) -> None:
        # What another loop has scheduled may never happen: it may have ended.
        if self._flush_loop is not loop:
            self._flush_loop = loop
            self._has_written = False
            loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Write what has collected in this turn of the event loop, unless something else has done so."""
        self._flush_loop = None
        self._expects_many = len(self._pending) >= MANY
        if self._pending and not self._try_write(None):
            self._wake_thread()

    def _try_write(self, content: bytes | None) -> bool:
        """Write what is queued and an item, if that does not wait for anything; False if nothing was tried."""
        begun = time.monotonic()
        if self._is_woken or begun < self._slow_until or not self._writing.acquire(blocking=False):
            return False
        group: list[_Item] = self._next_group() if self._pending else []
        contents = [item.content for item in group]
        if content is not None:
            contents.append(content)
        try:
            if not self._try_commit(contents):
                with self._state:
                    self._pending[:0] = group
                return False
        except Exception as problem:
            _report(group, problem)
            if content is not None:
                raise
            return True
        finally:
            self._writing.release()
            self._judge_speed(begun, time.monotonic())
        _report(group, None)
        return True

    def _judge_speed(self, begun: float, ended: float) -> None:
        if ended - begun < SLOW_SECONDS:
            self._slow_writes = 0
            return
        self._slow_writes += 1
        # One slow write may be a process that was not scheduled for a while; two in a row are the disk.
        if self._slow_writes >= 2:
            self._slow_until = ended + RETRY_SECONDS

    def _queue(self, item: _Item) -> None:
        with self._state:
            self._pending.append(item)

    def _next_group(self) -> list[_Item]:
        with self._state:
            group, self._pending = self._pending[:MAX_GROUP], self._pending[MAX_GROUP:]
            return group

    def _wake_thread(self) -> None:
        with self._state:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, args=(self._wake_ups,), name=self._thread_name, daemon=True
                )
                self._thread.start()
            if not self._is_woken:
                self._is_woken = True
                self._wake_ups.put(True)

    def _work(self, wake_ups: queue.SimpleQueue[bool]) -> None:
        while wake_ups.get():
            with self._state:
                self._is_woken = False  # cleared first: an item that comes from now on wakes the thread once more
            with self.drained():
                pass

    def _write_group(self, group: Sequence[_Item]) -> None:
        try:
            self._commit([item.content for item in group])
        except Exception as problem:
            _report(group, problem)
        else:
            _report(group, None)


def _report(group: Sequence[_Item], problem: Exception | None) -> None:
    for item in group:
        # One exception for each: raised in several tasks it would collect the traces of all of them.
        item.on_written(None if problem is None else copy.copy(problem))


def _resolve(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None], problem: Exception | None) -> None:
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        _settle(future, problem)
        return
    # A loop that is closed has nobody left who waits.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_settle, future, problem)


def _settle(future: asyncio.Future[None], problem: Exception | None) -> None:
    if future.done():  # cancelled with the task that waited
        return
    if problem is None:
        future.set_result(None)
    else:
        future.set_exception(problem)
