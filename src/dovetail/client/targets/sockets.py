"""Servers that listen at a socket, and channels that a user brings along."""

from __future__ import annotations

import os
import stat
from typing import Protocol, runtime_checkable

from dovetail.protocol.errors import ConnectionLost, LocalError
from dovetail.transports.base import Channel


@runtime_checkable
class OwnChannel(Channel, Protocol):
    """A channel of the user's own making."""


class UnixTarget:
    """A server that listens at a Unix socket."""

    restartable = False

    def __init__(self, path: str) -> None:
        if not path:
            raise LocalError("The path of the socket is missing")
        self._path = path
        self.key = ("unix", os.path.abspath(path))

    async def connect(self) -> Channel:
        """A channel over a new connection."""
        from dovetail.transports.sockets import connect_unix

        return await connect_unix(self._path)

    async def ended(self) -> None:
        """A connection has ended when its channel is closed."""


class TcpTarget:
    """A server that listens at a TCP port."""

    restartable = False

    def __init__(self, url: str) -> None:
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if host is None or port is None:
            raise LocalError(f"A TCP server is reached as tcp://host:port, not {url!r}")
        self._place = (host, port)
        self.key = ("tcp", *self._place)

    async def connect(self) -> Channel:
        """A channel over a new connection."""
        from dovetail.transports.sockets import connect_tcp

        return await connect_tcp(*self._place)

    async def ended(self) -> None:
        """A connection has ended when its channel is closed."""


class ChannelTarget:
    """A channel that is there already; it can be used once."""

    restartable = False
    key = None

    def __init__(self, channel: Channel) -> None:
        self._channel: Channel | None = channel

    async def connect(self) -> Channel:
        """The channel."""
        channel, self._channel = self._channel, None
        if channel is None:
            raise ConnectionLost("the channel has been used already, and there is no other to connect with")
        return channel

    async def ended(self) -> None:
        """Nothing is left of a channel that was closed."""


def socket_path(target: str) -> str | None:
    """The path of a Unix socket, where a target names one: `unix:/path`, or the path of a socket that is there."""
    if target.startswith("unix:"):
        from urllib.parse import unquote

        path = target.removeprefix("unix:")
        return unquote(path[2:]) if path.startswith("//") else path
    try:
        return target if os.sep in target and stat.S_ISSOCK(os.stat(target).st_mode) else None
    except (OSError, ValueError):
        return None
