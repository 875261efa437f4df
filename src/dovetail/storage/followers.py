"""Followers of logs in this process, and delivery of entries on their event loops."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from .contract import LogEntries

logger = logging.getLogger("dovetail")


class Follower:
    """A callback that follows a log, called on the event loop that ran when it was made."""

    __slots__ = ("_callback", "_followers", "_loop", "generation", "log", "position")

    def __init__(self, followers: Followers, log: str, callback: Callable[[LogEntries], None], after: int = 0) -> None:
        self.log = log
        self.position = after
        """For a store that asks for news: the position of the last entry that was sent."""
        self.generation: int | None = None
        """For a store that asks for news: identifies the log that was read; 0 if there was none, None before that."""
        self._followers = followers
        self._callback: Callable[[LogEntries], None] | None = callback
        self._loop = asyncio.get_running_loop()

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._callback is None

    def close(self) -> None:
        """Unsubscribe; entries already scheduled are not delivered."""
        self._callback = None
        self._followers.remove(self)

    def send(self, entries: LogEntries) -> None:
        """Schedule the callback on its event loop; may be called from any thread."""
        try:
            if self._loop is _running_loop():
                self._loop.call_soon(self._call, entries)
            else:
                self._loop.call_soon_threadsafe(self._call, entries)
        except RuntimeError:
            # The event loop was closed, and the subscription was not: there is nothing left to call.
            self.close()

    def _call(self, entries: LogEntries) -> None:
        if self._callback is None:
            return
        try:
            self._callback(entries)
        except Exception:
            logger.exception("A follower of the log %r failed", self.log)


class Followers:
    """The followers of each log; safe to use from any thread."""

    __slots__ = ("_lock", "_logs")

    def __init__(self) -> None:
        # Tuples that are replaced and never modified, so that delivery needs no lock.
        self._logs: dict[str, tuple[Follower, ...]] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._logs)

    def of(self, log: str) -> tuple[Follower, ...]:
        """The followers of one log."""
        return self._logs.get(log, ())

    def logs(self) -> list[str]:
        """The names of all logs that have followers."""
        with self._lock:
            return list(self._logs)

    def add(self, follower: Follower) -> None:
        """Deliver to this follower from now on, unless it is closed already."""
        with self._lock:
            if not follower.closed:
                self._logs[follower.log] = (*self.of(follower.log), follower)

    def remove(self, follower: Follower) -> None:
        """Stop delivering to a follower."""
        with self._lock:
            rest = tuple(other for other in self.of(follower.log) if other is not follower)
            if rest:
                self._logs[follower.log] = rest
            else:
                self._logs.pop(follower.log, None)

    def clear(self) -> None:
        """Close all subscriptions."""
        for log in self.logs():
            for follower in self.of(log):
                follower.close()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread, if one is running."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
