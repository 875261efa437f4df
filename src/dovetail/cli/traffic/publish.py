"""Traffic of a running host for other terminals of the same user: a Unix socket in the user's private runtime folder.

A host writes one JSON object per line: a greeting, the kept messages, a mark, and then each message as it passes. The
messages are redacted as `/traffic` redacts them. Nothing is read from the other side.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dovetail.host.events import TrafficLine
from dovetail.text.redact import redact_text
from dovetail.userdata.folders import runtime_folder
from dovetail.userdata.private_file import FileUnusable, check_private_folder, private_folder

from .live import LiveTraffic
from .views import redacted

MAX_WATCHERS = 8
"""Terminals that may follow one host."""
MAX_UNREAD_BYTES = 16_000_000
"""Bytes that wait for a terminal that does not read; above it, its connection is closed."""
SOCKET_NAME = "host-{pid}.sock"


class HostGreeting(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: which host it is."""

    pid: int
    folder: str
    """The folder that it was started in."""
    since: float
    """When it was started, in seconds since the epoch."""
    servers: tuple[str, ...]
    first: int
    """The number of the first exchange that is kept."""


class PublishedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A message, without its secrets; or the mark that all kept messages were sent (`caught_up`)."""

    at: float = 0.0
    server: str = ""
    direction: str = "sent"
    message: str = ""
    size: int = 0
    tail: str = ""
    caught_up: bool = False


@contextlib.asynccontextmanager
async def publishing(traffic: LiveTraffic, servers: Callable[[], Sequence[str]]) -> AsyncGenerator[Path | None]:
    """Publish the traffic within the `with`, which gets the path of the socket; None where there can be none."""
    publisher = TrafficPublisher(traffic, servers)
    path = await publisher.open()
    try:
        yield path
    finally:
        await publisher.close()


class TrafficPublisher:
    """Serves the traffic of one host to terminals of the same user."""

    def __init__(self, traffic: LiveTraffic, servers: Callable[[], Sequence[str]]) -> None:
        self._traffic = traffic
        self._servers = servers
        self._since = time.time()
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._watchers: set[asyncio.StreamWriter] = set()

    async def open(self) -> Path | None:
        """Listen; None on systems without Unix sockets, or if the runtime folder cannot be used."""
        if not hasattr(asyncio, "start_unix_server"):
            return None
        path = runtime_folder() / SOCKET_NAME.format(pid=os.getpid())
        try:
            private_folder(path.parent)
            check_private_folder(path.parent)
            self._server = await asyncio.start_unix_server(self._serve, path)
            path.chmod(0o600)
        except (FileUnusable, OSError):
            # Such as a path that is too long for a socket: the host works without it.
            return None
        self._path = path
        return path

    async def close(self) -> None:
        """End every connection, and remove the socket."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._watchers):
            writer.close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._watchers) >= MAX_WATCHERS or not _is_same_user(writer):
            writer.close()
            return
        self._watchers.add(writer)

        def on_line(line: TrafficLine, _: object) -> None:
            if writer.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
                writer.transport.abort()
            elif not writer.is_closing():
                writer.write(_published(line))

        try:
            writer.write(self._greeting())
            # Between the kept messages and the first new one nothing is awaited, so that none is missed.
            for line in self._traffic.log.messages():
                writer.write(_published(line))
            writer.write(_encoded(PublishedLine(caught_up=True)))
            with self._traffic.listening(on_line):
                while await reader.read(1_000):
                    pass
        except OSError:
            pass  # the terminal is gone
        finally:
            self._watchers.discard(writer)
            writer.close()

    def _greeting(self) -> bytes:
        kept = self._traffic.log.all()
        return _encoded(
            HostGreeting(
                pid=os.getpid(),
                folder=os.getcwd(),
                since=self._since,
                servers=tuple(self._servers()),
                first=kept[0].number if kept else 1,
            )
        )


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _published(line: TrafficLine) -> bytes:
    try:
        message = msgspec.json.encode(redacted(msgspec.json.decode(line.message))).decode()
    except (msgspec.MsgspecError, RecursionError):
        message = redact_text(line.message.decode(errors="replace"))
    return _encoded(
        PublishedLine(
            at=line.at,
            server=line.server,
            direction=line.direction,
            message=message,
            size=line.size,
            tail=redact_text(line.tail.decode(errors="replace")),
        )
    )


def _is_same_user(writer: asyncio.StreamWriter) -> bool:
    """True if the other side is a process of this user; where the system does not tell, the folder decides."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    return struct.unpack("3i", peer)[1] == os.geteuid()
