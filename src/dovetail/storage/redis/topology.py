"""Servers behind a URL: one server, or the master that Sentinels name."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Protocol, TypeVar

from redis import exceptions

from dovetail.storage.contract import StoreError, StoreUnusable

from .address import RedisAddress
from .connection import DirectConnection, Link, make_connection
from .errors import from_connecting, from_reply
from .scripts import Script

T = TypeVar("T")


class Servers(Protocol):
    """Redis servers that together hold the keys; used from one event loop."""

    polls: bool
    """True if messages of channels can be lost without a broken connection."""

    async def execute(self, key: bytes, parts: tuple[bytes, ...], script: Script | None = None) -> Any:
        """The reply to a command on a key; see `Link.call`. Raises `StoreError`."""
        ...

    async def dial_listener(self) -> DirectConnection:
        """A connection, not yet connected, to a server that has the messages of all channels."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class SingleServer:
    """One server, always at the same address."""

    polls = False

    def __init__(self, address: RedisAddress, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._link = Link(self.dial_listener, timeout, needs_master=address.mode == "sentinel")

    async def execute(self, key: bytes, parts: tuple[bytes, ...], script: Script | None = None) -> Any:
        """The reply to a command."""
        try:
            return await self._link.call(parts, script)
        except exceptions.ResponseError as problem:
            raise from_reply(problem, self._link.server) from None

    async def dial_listener(self) -> DirectConnection:
        """A connection to the server."""
        host, port = self._address.servers[0]
        return make_connection(self._address, host, port, self._timeout)

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()


class SentinelServer(SingleServer):
    """The master of a service, for which the Sentinels are asked before each connection."""

    async def dial_listener(self) -> DirectConnection:
        """A connection to the master that the first Sentinel to answer names."""
        host, port = await first_success(self._ask(*sentinel) for sentinel in self._address.servers)
        return make_connection(self._address, host, port, self._timeout)

    async def _ask(self, host: str, port: int) -> tuple[str, int]:
        connection = make_connection(self._address, host, port, self._timeout, to_sentinel=True)
        where = f"{host}:{port} (Sentinel)"
        try:
            await connection.connect()
            await connection.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.service)
            reply = await connection.read()
        except (exceptions.RedisError, OSError) as problem:
            if "unknown command" in str(problem):
                raise StoreUnusable(
                    f"Redis at {host}:{port} is not a Sentinel; use its port (26379 if nothing else was set), or a URL "
                    "that starts with redis://"
                ) from None
            raise from_connecting(problem, where) from None
        finally:
            await connection.discard()
        if reply is None:
            service = self._address.service
            raise StoreUnusable(f"Redis at {where} knows no service {service!r}. Check the name in the URL's path")
        return reply[0].decode(), int(reply[1])


async def first_success(attempts: Iterable[Coroutine[Any, Any, T]]) -> T:
    """The result of the first attempt that succeeds; all are made at once. `StoreError` if none does."""
    running = {asyncio.ensure_future(attempt) for attempt in attempts}
    problems: list[StoreError] = []
    try:
        while running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                problem = task.exception()
                if problem is None:
                    return task.result()
                if not isinstance(problem, StoreError):
                    raise problem
                problems.append(problem)
    finally:
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
    # A server that is reached and cannot be used tells more than one that is away.
    raise next((problem for problem in problems if isinstance(problem, StoreUnusable)), problems[0])
