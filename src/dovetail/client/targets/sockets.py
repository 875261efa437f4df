"""Servers at Unix sockets and TCP ports."""

from __future__ import annotations

import os
import stat

from dovetail.protocol.errors import LocalError
from dovetail.transports.base import MAX_RECEIVED, Channel

from .contract import ServerTarget


class UnixTarget(ServerTarget):
    """A server at a Unix socket."""

    def __init__(self, path: str) -> None:
        if not path:
            raise LocalError("The path of the socket is missing")
        self._path = path
        self.label = f"The server at unix:{path}"
        self.key = ("unix", os.path.abspath(path))

    async def connect(self, max_message_bytes: int = MAX_RECEIVED) -> Channel:
        """A channel over a new connection."""
        from dovetail.transports.sockets import connect_unix

        return await connect_unix(self._path, max_line=max_message_bytes)


class TcpTarget(ServerTarget):
    """A server at a TCP port."""

    def __init__(self, url: str) -> None:
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if host is None or port is None:
            raise LocalError(f"A TCP server is reached as tcp://host:port, not {url!r}")
        self._address = (host, port)
        self.label = f"The server at tcp://{host}:{port}"
        self.key = ("tcp", *self._address)

    async def connect(self, max_message_bytes: int = MAX_RECEIVED) -> Channel:
        """A channel over a new connection."""
        from dovetail.transports.sockets import connect_tcp

        return await connect_tcp(*self._address, max_line=max_message_bytes)


def socket_path(target: str) -> str | None:
    """The path of a Unix socket, where a target names one: `unix:/path`, or the path of an existing socket."""
    if target.startswith("unix:"):
        from urllib.parse import unquote

        path = target.removeprefix("unix:")
        return unquote(path[2:]) if path.startswith("//") else path
    try:
        return target if os.sep in target and stat.S_ISSOCK(os.stat(target).st_mode) else None
    except (OSError, ValueError):
        return None
