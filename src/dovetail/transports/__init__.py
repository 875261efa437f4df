"""Transports: thin adapters between a channel of the operating system and whole messages as bytes.

They import neither each other nor any rule of the protocol. What is public here is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from dovetail.transports.websocket import connect_websocket

__all__ = ["connect_websocket"]

__getattr__ = lazily(__name__, {"connect_websocket": "transports.websocket"})


def __dir__() -> list[str]:
    return sorted(__all__)
