"""Attaching to the traffic of a running host of the same user."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from dovetail.host.events import TrafficLine
from dovetail.userdata.folders import runtime_folder
from dovetail.userdata.private_file import FileUnusable, check_private_folder

from .publish import SOCKET_NAME, HostGreeting, PublishedLine

_PATIENCE = 3.0
"""Seconds that a host has to greet."""
_MAX_LINE = 16_000_000


class AttachedHost:
    """A connection to the traffic of a host."""

    def __init__(self, greeting: HostGreeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.greeting = greeting
        self._reader = reader
        self._writer = writer

    async def lines(self) -> AsyncIterator[TrafficLine | None]:
        """The kept messages, None once these are complete, then each message as it passes; ends with the host."""
        while line := await _read_line(self._reader):
            published = msgspec.json.decode(line, type=PublishedLine)
            if published.caught_up:
                yield None
                continue
            direction: Any = published.direction
            yield TrafficLine(
                at=published.at,
                server=published.server,
                direction=direction,
                message=published.message.encode(),
                size=published.size,
                tail=published.tail.encode(),
            )

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


@contextlib.asynccontextmanager
async def running_hosts() -> AsyncGenerator[list[AttachedHost]]:
    """Connections to all running hosts of this user, the one started last first; they are closed at the end."""
    hosts: list[AttachedHost] = []
    try:
        found = [await _attach(path) for path in _sockets()]
        hosts = [host for host in found if host is not None]
        hosts.sort(key=lambda host: -host.greeting.since)
        yield hosts
    finally:
        for host in hosts:
            host.close()


def _sockets() -> list[Path]:
    folder = runtime_folder()
    try:
        check_private_folder(folder)
    except FileUnusable:
        return []
    return sorted(folder.glob(SOCKET_NAME.format(pid="*")))


async def _attach(path: Path) -> AttachedHost | None:
    """Connect; None for a host that has ended. The socket of one that was killed is removed."""
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_unix_connection(path, limit=_MAX_LINE)
            greeting = await _read_line(reader)
    except ConnectionRefusedError:
        _remove(path)
        return None
    except (OSError, TimeoutError):
        return None
    try:
        return AttachedHost(msgspec.json.decode(greeting, type=HostGreeting), reader, writer)
    except msgspec.MsgspecError:
        writer.close()
        return None


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except (ValueError, OSError):
        return b""  # longer than any host writes, or the host was killed
