"""Contract of a store: bytes under names, for sessions, resumable streams, suspended calls and coordination.

A store has four parts, which do not share their names:

- `Entries`: values under keys, each with a time to live. `add` and `delete` are atomic: of several concurrent callers,
  exactly one gets True, which makes them usable as "the first one wins" across processes.
- `Logs`: append-only lists with positions, which any process can follow: for streams that a client resumes after its
  last position, and for messages between processes.
- `Groups`: sets whose members expire, with a limit on their number, for what is counted across processes.
- `Buckets`: rate limits that several processes share.

What every implementation guarantees:

- Names are text, values are bytes. The store does not interpret them.
- A `ttl` is a number of seconds from now, or None for no expiry. After that time an item is gone for every operation,
  whether or not its memory has been freed.
- Every operation is atomic: no other task, thread or process sees it half done. A server such as Redis can implement
  each one with a single command or script, whose keys are known from its arguments.
- An acknowledged change is visible to every later operation, in all processes that share the store.
- An operation on a closed store raises `StoreClosed`; one that cannot reach the store, or gets no answer within about a
  second, raises `StoreUnavailable`; one that fails in another way raises another `StoreError`. An operation whose
  caller is cancelled, or that raises `StoreUnavailable`, may still have taken effect.

The methods may be called from any event loop. Implementations are tested against this contract by the same tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias


class StoreError(Exception):
    """An operation of a store failed; the message says why."""


class StoreClosed(StoreError):
    """The store was closed before the operation started."""


class StoreUnusable(StoreError):
    """The file or database of the store is damaged, or belongs to another program or to a newer version."""


class StoreUnavailable(StoreError):
    """The store cannot be reached now, or did not answer in time; a later operation may succeed."""


LogEntries: TypeAlias = "Sequence[tuple[int, bytes]]"
"""Entries of a log with their positions, oldest first."""


class Entries(Protocol):
    """Values under keys, each with a time to live."""

    async def get(self, key: str) -> bytes | None:
        """The value of a key, or None."""
        ...

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        """Set the value and the time to live of a key, replacing both if it exists."""
        ...

    async def add(self, key: str, value: bytes, ttl: float | None = None) -> bool:
        """Set the value only if the key does not exist; of several concurrent callers, exactly one gets True."""
        ...

    async def replace(self, key: str, value: bytes, ttl: float | None = None, *, expected: bytes | None = None) -> bool:
        """Set the value and the time to live only if the key exists, and has the expected value where one is given."""
        ...

    async def touch(self, key: str, ttl: float | None) -> bool:
        """Set a new time to live, counted from now; False if the key does not exist."""
        ...

    async def delete(self, key: str) -> bool:
        """Remove a key; of several concurrent callers, exactly one gets True."""
        ...


class Subscription(Protocol):
    """A callback that receives the new entries of a log."""

    def close(self) -> None:
        """Unsubscribe: after this returns, the callback is not called again. A second call does nothing."""
        ...


class Logs(Protocol):
    """Append-only lists of bytes, whose entries are numbered from 1.

    A log begins with its first entry or with `claim`, and exists until it is dropped or expires. During that time a
    position is never used twice, even after the entries before it were discarded. A log that begins again counts from 1
    again: a reader whose position is beyond `last` knows that the log it read has ended.
    """

    async def append(
        self,
        log: str,
        entries: Sequence[bytes],
        ttl: float | None = None,
        keep: int | None = None,
        *,
        writer: str | None = None,
        close: bool = False,
    ) -> int | None:
        """Append entries, in order and without others between them, and wake the followers; the position of the last.

        None, without any effect, if the log was closed, or if `writer` is given and another writer has claimed it.
        `close` lets nothing be appended after these entries, until the log is gone: of several that close it, one wins.

        The time to live is that of the whole log, and starts again with every append. Without entries, only that
        happens, and only if the log exists; the position is that of the newest entry, or 0. `keep` (1 or more) discards
        all but the newest entries.
        """
        ...

    async def claim(self, log: str, writer: str, ttl: float | None = None) -> int:
        """Make a writer the only one that may append with a name; the position of the newest entry, or 0.

        The log begins if it does not exist; otherwise its time to live starts again. A claim of a closed log changes
        nothing.
        """
        ...

    async def read(self, log: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Up to `limit` entries after a position, oldest first; discarded entries leave a gap in the positions."""
        ...

    async def last(self, log: str) -> int:
        """The position of the newest entry, or 0 if the log does not exist or has none."""
        ...

    async def drop(self, log: str) -> bool:
        """Remove a log; False if it does not exist."""
        ...

    async def follow(self, log: str, after: int, callback: Callable[[LogEntries], None]) -> Subscription:
        """Call `callback` with the entries after a position, those that exist and those that come.

        It gets each entry once and in order, as long as none is discarded before it was read: then the positions have a
        gap. It is called on the event loop that runs now, never from within `append` or `follow`, and not with an empty
        sequence. The log need not exist yet; one that begins again is followed from its beginning, so that positions
        start again at 1. While the store is unavailable nothing is delivered, and afterwards what was missed. An
        exception of the callback is logged, and affects no other entry.
        """
        ...


class Groups(Protocol):
    """Sets of names whose members expire one by one."""

    async def join(self, group: str, member: str, ttl: float, most: int) -> bool:
        """Add a member, or renew its time to live; False, without any effect, if there are `most` others already."""
        ...

    async def leave(self, group: str, member: str) -> bool:
        """Remove a member; False if there is no such member."""
        ...

    async def oldest(self, group: str) -> tuple[str, float] | None:
        """The member that expires first, and the seconds until then; None for a group without members."""
        ...

    async def members(self, group: str, limit: int) -> list[str]:
        """Up to `limit` members, those that expire first."""
        ...


class Buckets(Protocol):
    """Token buckets: each is refilled at a steady rate, up to its size."""

    async def take(self, bucket: str, rate: float, size: float, tokens: float = 1.0) -> float:
        """Take tokens from a bucket, which is full at first; 0.0, or the seconds to wait, if nothing was taken.

        `rate` is the number of tokens that are added in a second, `size` the most that it holds.
        """
        ...


class Store(Entries, Logs, Groups, Buckets, Protocol):
    """Entries, logs, groups and buckets together; their names are separate."""

    @property
    def shared(self) -> bool:
        """True if other processes may use the same store; False lets a server skip what only they need."""
        ...

    @property
    def delivery_seconds(self) -> float:
        """Seconds until the followers in other processes have what those of this one have; a busy one needs longer."""
        ...

    async def close(self) -> None:
        """Release all resources; acknowledged changes stay where the store keeps them. A second call does nothing."""
        ...
