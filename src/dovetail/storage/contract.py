"""Contract of a store: bytes under names, for sessions, resumable streams, suspended calls and coordination.

A store has four parts, which do not share their names:

- `Entries`: values under keys, each with a time to live. `add` and `delete` are atomic: of several concurrent callers,
  exactly one gets True, which makes them usable as "the first one wins" across processes.
- `Logs`: append-only lists with positions, for streams that a client resumes after its last position.
- `Bus`: publish and subscribe between the processes that share the store. Delivery is at most once, in the order of
  each publisher, without history: a subscriber gets the messages published after `subscribe` has returned.
- `Leases`: ownership of a name by at most one owner at a time, for as long as the owner renews it.

What every implementation guarantees:

- Names are text, values are bytes. The store does not interpret them.
- A `ttl` is a number of seconds from now, or None for no expiry. After that time an item is gone for every operation,
  whether or not its memory has been freed.
- Every operation is atomic: no other task, thread or process sees it half done, except where its docstring says
  otherwise. A server such as Redis can implement each one with a single command or script.
- An acknowledged change is visible to every later operation, in all processes that share the store.
- An operation on a closed store raises `StoreClosed`; one that fails raises another `StoreError`. An operation whose
  caller is cancelled may still take effect.
- A prefix is plain text without wildcards: `"a"` is a prefix of `"a"`, `"ab"` and `"a:1"`. Callers end a group of names
  with a separator, and ask for `"a:"`.

The methods may be called from any event loop. Implementations are tested against this contract by the same tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class StoreError(Exception):
    """An operation of a store failed; the message says why."""


class StoreClosed(StoreError):
    """The store was closed before the operation started."""


class StoreUnusable(StoreError):
    """The file or database of the store is damaged, or belongs to another program or to a newer version."""


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

    async def touch(self, key: str, ttl: float | None) -> bool:
        """Set a new time to live, counted from now; False if the key does not exist."""
        ...

    async def delete(self, key: str) -> bool:
        """Remove a key; of several concurrent callers, exactly one gets True."""
        ...

    async def count(self, prefix: str) -> int:
        """The number of keys with a prefix; keys added or removed meanwhile may be counted or not."""
        ...

    async def keys(self, prefix: str, limit: int) -> list[str]:
        """Up to `limit` keys with a prefix, in any order, without duplicates."""
        ...


class Logs(Protocol):
    """Append-only lists of bytes, whose entries are numbered from 1.

    A log begins with its first entry, and exists until it is dropped or expires. During that time a position is never
    used twice, even after the entries before it were discarded. A log that begins again counts from 1 again: a reader
    whose position is beyond `last` knows that the log it read has ended.
    """

    async def append(
        self, log: str, entries: Sequence[bytes], ttl: float | None = None, keep: int | None = None
    ) -> int:
        """Append entries, in order and without others between them; return the position of the last.

        The time to live is that of the whole log, and starts again with every append. Without entries, only that
        happens, and only if the log exists. `keep` (1 or more) discards all but the newest entries.
        """
        ...

    async def read(self, log: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Up to `limit` entries after a position, oldest first; discarded entries leave a gap in the positions."""
        ...

    async def last(self, log: str) -> int:
        """The position of the newest entry, or 0 if the log does not exist."""
        ...

    async def drop(self, log: str) -> bool:
        """Remove a log; False if it does not exist."""
        ...


class Subscription(Protocol):
    """A callback subscribed to a topic."""

    def close(self) -> None:
        """Unsubscribe: after this returns, the callback is not called again. A second call does nothing."""
        ...


class Bus(Protocol):
    """Messages to the current subscribers in all processes that share the store.

    A subscriber gets each message at most once, and the messages of one publisher in the order they were published.
    Messages are not kept for later subscribers, and a process that is suspended for long may miss some: a user of the
    bus must be able to recover, for example by reading the state that a message announced.
    """

    async def publish(self, topic: str, message: bytes) -> None:
        """Send a message to all subscribers of a topic, including those in this process."""
        ...

    async def subscribe(self, topic: str, callback: Callable[[bytes], None]) -> Subscription:
        """Call `callback` with each message published after this returns, on the event loop that runs now.

        It is never called from within `publish`. An exception that it raises is logged, and affects no other message.
        """
        ...


class Leases(Protocol):
    """Names that at most one owner holds at a time; an owner that does not renew its lease loses it.

    A lease is not a lock on work that is already running: an owner whose lease has expired must stop by itself.
    """

    async def acquire(self, name: str, owner: str, ttl: float) -> bool:
        """Acquire a free name, or renew the owner's own lease; False while another owner holds it."""
        ...

    async def release(self, name: str, owner: str) -> bool:
        """Release a name; False, without any effect, if this owner does not hold it."""
        ...

    async def holder(self, name: str) -> str | None:
        """The current owner of a name, or None."""
        ...


class Store(Entries, Logs, Bus, Leases, Protocol):
    """Entries, logs, bus and leases together; their names are separate."""

    async def drop_prefix(self, prefix: str) -> None:
        """Remove all entries and logs whose names have a prefix; leases are kept.

        This is not atomic: other callers may see it half done, and names added meanwhile may stay.
        """
        ...

    async def close(self) -> None:
        """Release all resources; acknowledged changes stay where the store keeps them. A second call does nothing."""
        ...
