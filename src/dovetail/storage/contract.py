"""What a store does: it keeps bytes under names and knows nothing of what they mean.

Names are text and values are bytes. A `ttl` is a number of seconds from now, or None for ever; what is
past its time is gone for every operation, whether or not its space has been freed. Every operation is
one step that no other task, replica or process sees half done, except where its sentence says
otherwise, so that a server such as Redis can do each with one command or one script.

A prefix is plain text: `"a"` begins `"a"`, `"ab"` and `"a:1"`, and no character of it is a wildcard.
Callers end the part of a name that groups others with a separator, and ask for `"a:"`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class StoreError(Exception):
    """A store could not do what it was asked; the message says why."""


class StoreClosed(StoreError):
    """The store was closed before the operation began."""


class StoreUnusable(StoreError):
    """What should hold the store is damaged, belongs to another program, or to a newer version of this one."""


class Entries(Protocol):
    """Values under keys, each with a time to live."""

    async def get(self, key: str) -> bytes | None:
        """The value under a key, or None."""
        ...

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        """Set the value and the time to live, whatever was there before."""
        ...

    async def add(self, key: str, value: bytes, ttl: float | None = None) -> bool:
        """Set the value only if the key is free; of many that try at once, exactly one is told True."""
        ...

    async def touch(self, key: str, ttl: float | None) -> bool:
        """Give a key a new time to live, counted from now; False if there is no such key."""
        ...

    async def delete(self, key: str) -> bool:
        """Remove a key; of many that try at once, exactly one is told True."""
        ...

    async def count(self, prefix: str) -> int:
        """How many keys begin with the prefix; keys that come and go meanwhile may be counted or not."""
        ...

    async def keys(self, prefix: str, limit: int) -> list[str]:
        """Up to `limit` keys that begin with the prefix, in no promised order, none twice."""
        ...


class Logs(Protocol):
    """Append-only lists of bytes, which number their entries from 1.

    A log begins with its first entry and lives until it is dropped or its time to live is over. Within
    one life a position is never given twice, also not after the entries before it have been let go.
    A log that begins anew counts from 1 again: a reader whose position is beyond `last` has missed an end.
    """

    async def append(
        self, log: str, entries: Sequence[bytes], ttl: float | None = None, keep: int | None = None
    ) -> int:
        """Add entries, in order and next to each other, and give the position of the last.

        The time to live is that of the whole log, and is counted anew with every append; without entries
        only that happens, to a log that is there. `keep` (1 or more) lets go of all but the newest so many.
        """
        ...

    async def read(self, log: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Up to `limit` entries behind a position, oldest first; where some were let go, positions leave a gap."""
        ...

    async def last(self, log: str) -> int:
        """The position of the newest entry, or 0 if there is no such log."""
        ...

    async def drop(self, log: str) -> bool:
        """End a log; False if there is no such log."""
        ...


class Subscription(Protocol):
    """One callback on one topic."""

    def close(self) -> None:
        """Listen no more: once this returns the callback is not called again. A second time does nothing."""
        ...


class Bus(Protocol):
    """Messages to whoever listens at the moment, in every process that shares the store.

    A message reaches a listener at most once; what one publisher sends one after the other arrives in that
    order. Nothing is kept for those who come later, and a process that stands still for long may miss some.
    """

    async def publish(self, topic: str, message: bytes) -> None:
        """Send a message to all who listen to the topic, the sender's own process included."""
        ...

    async def subscribe(self, topic: str, callback: Callable[[bytes], None]) -> Subscription:
        """Call back with each message published from when this returns, on the loop that is running now.

        Never from within `publish`. What the callback raises is logged, and hurts only that message.
        """
        ...


class Leases(Protocol):
    """Names that at most one owner holds at a time, and loses if it does not renew them."""

    async def acquire(self, name: str, owner: str, ttl: float) -> bool:
        """Take a name that is free, or renew one's own; False while another owner holds it."""
        ...

    async def release(self, name: str, owner: str) -> bool:
        """Give a name back; False, and nothing happens, if this owner does not hold it."""
        ...

    async def holder(self, name: str) -> str | None:
        """The owner who holds the name now, or None."""
        ...


class Store(Entries, Logs, Bus, Leases, Protocol):
    """The four together, with one end; entries, logs, topics and leases do not share their names.

    An operation on a closed store raises StoreClosed, one that fails below raises StoreError. An operation
    whose caller is cancelled may have happened.
    """

    async def drop_prefix(self, prefix: str) -> None:
        """Remove every entry and every log whose name begins with the prefix; leases stay with their owners.

        Others may see it half done, and what is added meanwhile may stay.
        """
        ...

    async def close(self) -> None:
        """Let go of everything; what was acknowledged stays where the store is kept. A second time does nothing."""
        ...
