"""Servers: tools, resources and prompts as plain Python functions, over every transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from dovetail.server.app import listen_tcp, listen_unix
    from dovetail.server.run.sockets import SocketServer

__all__ = ["SocketServer", "listen_tcp", "listen_unix"]

__getattr__ = lazily(
    __name__,
    {
        "SocketServer": "server.run.sockets",
        "listen_tcp": "server.app",
        "listen_unix": "server.app",
    },
)
