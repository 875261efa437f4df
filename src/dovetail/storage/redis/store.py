"""Store in Redis or Valkey: shared by any number of processes on any number of machines."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from dovetail.storage.contract import LogEntries, StoreClosed, StoreError, Subscription

from . import scripts
from .address import TLS_FILES, Mode, RedisAddress, parse_address
from .cluster import Cluster
from .log_followers import LogFollowers
from .scripts import Script
from .topology import SentinelServer, Servers, SingleServer

_MAX_MILLISECONDS = 10**13
"""Three hundred years; more would be beyond what Redis can add to its time."""
_ONE_KEY = b"1"
_MAX_PUBLISHED = b"%d" % scripts.MAX_PUBLISHED


class RedisStore:
    """Store in Redis, given by a URL; see `dovetail.storage.redis.address` for its forms.

    It connects at the first operation. Each operation is one command or one script on one key, so it is atomic, and
    takes one round trip; those that are issued in the same turn of the event loop share it. All names begin with
    `prefix`. `timeout` is the time in seconds after which an operation raises `StoreUnavailable`.
    """

    def __init__(self, url: str, *, prefix: str = "dovetail:", timeout: float = 0.9) -> None:
        self._address = parse_address(url, os.environ)
        for option in TLS_FILES:
            path = self._address.tls_options.get(option)
            if path is not None and not os.path.isfile(path):
                raise StoreError(f"The URL of the Redis store has an option {option}, and there is no file {path}")
        self._timeout = timeout
        self._prefix = prefix
        start = prefix.encode()
        self._entry, self._log, self._group, self._bucket = (start + kind for kind in (b"e:", b"l:", b"g:", b"b:"))
        self._lock = threading.Lock()
        self._clients: dict[asyncio.AbstractEventLoop, _LoopClient] = {}
        self._client: _LoopClient | None = None
        """The one that was used last, which nearly always is the only one."""
        self._closed = False

    def __repr__(self) -> str:
        return f"RedisStore({str(self._address)!r}, prefix={self._prefix!r})"

    @property
    def shared(self) -> bool:
        """True: other processes may use the same store."""
        return True

    @property
    def delivery_seconds(self) -> float:
        """None: Redis sends to all followers at once."""
        return 0.0

    async def get(self, key: str) -> bytes | None:
        """The value of a key, or None."""
        name = self._entry + key.encode()
        return await self._servers().execute(name, (b"GET", name))

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        """Set the value and the time to live."""
        await self._set(key, value, ttl)

    async def add(self, key: str, value: bytes, ttl: float | None = None) -> bool:
        """Set the value if the key does not exist."""
        return await self._set(key, value, ttl, b"NX") is not None

    async def replace(self, key: str, value: bytes, ttl: float | None = None, *, expected: bytes | None = None) -> bool:
        """Set the value and the time to live if the key exists, with the expected value."""
        if expected is not None:
            expiry = b"" if ttl is None else _milliseconds(ttl)
            return bool(await self._run(scripts.REPLACE, self._entry + key.encode(), expected, value, expiry))
        return await self._set(key, value, ttl, b"XX") is not None

    async def touch(self, key: str, ttl: float | None) -> bool:
        """Set a new time to live."""
        name = self._entry + key.encode()
        if ttl is None:
            return bool(await self._run(scripts.TOUCH_FOREVER, name))
        return bool(await self._servers().execute(name, (b"PEXPIRE", name, _milliseconds(ttl))))

    async def delete(self, key: str) -> bool:
        """Remove a key."""
        return await self._delete(self._entry + key.encode())

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
        """Append entries to a log, and publish them to its followers."""
        name = self._log + log.encode()
        return await self._run(
            scripts.APPEND,
            name,
            name,
            b"" if ttl is None else _milliseconds(ttl),
            b"" if keep is None else b"%d" % keep,
            b"-" if writer is None else b"=" + writer.encode(),
            b"1" if close else b"0",
            _MAX_PUBLISHED,
            *entries,
        )

    async def claim(self, log: str, writer: str, ttl: float | None = None) -> int:
        """Make a writer the only one that may append with a name."""
        name = self._log + log.encode()
        expiry = b"" if ttl is None else _milliseconds(ttl)
        return await self._run(scripts.CLAIM, name, expiry, b"=" + writer.encode())

    async def read(self, log: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Entries after a position, oldest first."""
        name = self._log + log.encode()
        found = await self._run(scripts.READ, name, b"%d" % after, b"%d" % max(limit, 0), b"", b"0")
        return _entries(found) if found else []

    async def last(self, log: str) -> int:
        """The position of the newest entry, or 0."""
        return await self._run(scripts.LAST, self._log + log.encode())

    async def drop(self, log: str) -> bool:
        """Remove a log."""
        return await self._delete(self._log + log.encode())

    async def follow(self, log: str, after: int, callback: Callable[[LogEntries], None]) -> Subscription:
        """Call `callback` with the entries after a position."""
        return await self._loop_client().followers.follow(log, after, callback)

    async def join(self, group: str, member: str, ttl: float, most: int) -> bool:
        """Add a member of a group, or renew it."""
        name = self._group + group.encode()
        return bool(await self._run(scripts.JOIN, name, member.encode(), _milliseconds(ttl), b"%d" % most))

    async def leave(self, group: str, member: str) -> bool:
        """Remove a member of a group."""
        return bool(await self._run(scripts.LEAVE, self._group + group.encode(), member.encode()))

    async def oldest(self, group: str) -> tuple[str, float] | None:
        """The member that expires first, and the seconds until then."""
        found = await self._run(scripts.OLDEST, self._group + group.encode())
        return (found[0].decode(), int(found[1]) / 1000) if found else None

    async def members(self, group: str, limit: int) -> list[str]:
        """Up to `limit` members, those that expire first."""
        found = await self._run(scripts.MEMBERS, self._group + group.encode(), b"%d" % limit)
        return [member.decode() for member in found]

    async def take(self, bucket: str, rate: float, size: float, tokens: float = 1.0) -> float:
        """Take tokens from a bucket, or return the seconds to wait."""
        if tokens > size:
            return math.inf
        name = self._bucket + bucket.encode()
        add, fill = (b"%d" % math.ceil(amount / rate * 1e6) for amount in (tokens, size))
        return await self._run(scripts.TAKE, name, add, fill) / 1e6

    async def close(self) -> None:
        """Close the connections of all event loops."""
        with self._lock:
            self._closed = True
            clients, self._clients, self._client = self._clients, {}, None
        for loop, client in clients.items():
            if loop is asyncio.get_running_loop():
                await client.close()
            elif not loop.is_closed():
                await _close_elsewhere(loop, client)

    async def _set(self, key: str, value: bytes, ttl: float | None, *condition: bytes) -> Any:
        name = self._entry + key.encode()
        expiry = () if ttl is None else (b"PX", _milliseconds(ttl))
        return await self._servers().execute(name, (b"SET", name, value, *expiry, *condition))

    async def _delete(self, name: bytes) -> bool:
        return bool(await self._servers().execute(name, (b"DEL", name)))

    async def _run(self, script: Script, name: bytes, *arguments: bytes) -> Any:
        return await self._servers().execute(name, (_ONE_KEY, name, *arguments), script)

    def _servers(self) -> Servers:
        return self._loop_client().servers

    def _loop_client(self) -> _LoopClient:
        """The connections of the event loop that runs now."""
        loop, client = asyncio.get_running_loop(), self._client
        if client is not None and client.loop is loop:
            return client
        with self._lock:
            if self._closed:
                raise StoreClosed("The store is closed")
            client = self._clients.get(loop)
            if client is None:
                self._clients = {other: its for other, its in self._clients.items() if not other.is_closed()}
                client = self._clients[loop] = _LoopClient(self._address, self._timeout, self._log)
            self._client = client
        return client


_SERVERS: dict[Mode, Callable[[RedisAddress, float], Servers]] = {
    "single": SingleServer,
    "sentinel": SentinelServer,
    "cluster": Cluster,
}


class _LoopClient:
    """Connections that belong to one event loop."""

    __slots__ = ("followers", "loop", "servers")

    def __init__(self, address: RedisAddress, timeout: float, log_prefix: bytes) -> None:
        self.loop = asyncio.get_running_loop()
        self.servers: Servers = _SERVERS[address.mode](address, timeout)
        servers = self.servers

        async def read(log: str, after: int, limit: int, generation: int | None) -> tuple[int, int, LogEntries] | None:
            name = log_prefix + log.encode()
            known = b"" if generation is None else b"%d" % generation
            arguments = (_ONE_KEY, name, b"%d" % after, b"%d" % limit, known, b"1")
            found = await servers.execute(name, arguments, scripts.READ)
            return (int(found[0]), int(found[1]), _entries(found)) if found else None

        self.followers = LogFollowers(servers, read, log_prefix, timeout)

    async def close(self) -> None:
        """End the tasks and close the connections."""
        await self.followers.close()
        await self.servers.close()


async def _close_elsewhere(loop: asyncio.AbstractEventLoop, client: _LoopClient) -> None:
    """Close connections that belong to the event loop of another thread."""
    closing = client.close()
    try:
        future = asyncio.run_coroutine_threadsafe(closing, loop)
    except RuntimeError:
        # It was closed meanwhile, and has cancelled its tasks, which closes their connections.
        closing.close()
        return
    try:
        async with asyncio.timeout(1):
            await asyncio.wrap_future(future)
    except TimeoutError:
        # That event loop does not run now. If it runs again, it will close them.
        return


def _milliseconds(ttl: float) -> bytes:
    """A time to live for Redis, which knows no fraction of a millisecond, and none that is over already."""
    return b"%d" % max(1, math.ceil(min(round(ttl * 1000, 3), _MAX_MILLISECONDS)))


def _entries(found: list[Any]) -> list[tuple[int, bytes]]:
    """Entries with their positions, from the answer of `READ`."""
    return list(enumerate(found[3:], int(found[2])))
