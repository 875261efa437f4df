"""Servers in this process, and channels that the caller provides."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dovetail.protocol.errors import ConnectionLost
from dovetail.transports.base import MAX_RECEIVED, Channel

from .contract import ServerTarget

if TYPE_CHECKING:
    from dovetail.transports.memory import MemoryChannel

logger = logging.getLogger("dovetail")

_END_SECONDS = 10.0
"""Seconds that a closing client waits for a server in memory, whose lifespan may take time to end."""


@runtime_checkable
class Servable(Protocol):
    """An object that serves a client over a channel, as `Server` does."""

    async def serve(self, channel: Channel) -> None:
        """Serve until the client disconnects."""
        ...


@runtime_checkable
class UserChannel(Channel, Protocol):
    """A channel that the caller provides; runtime-checkable, since callers derive from no class of ours."""


class MemoryTarget(ServerTarget):
    """A server in this process and on this event loop."""

    def __init__(self, server: Servable) -> None:
        self._server = server
        self._serving: set[asyncio.Task[None]] = set()

    async def connect(self, max_message_bytes: int = MAX_RECEIVED) -> Channel:
        """One end of a channel in memory, with the server at the other."""
        from dovetail.transports.memory import memory_pair

        ours, theirs = memory_pair()
        task = asyncio.get_running_loop().create_task(self._serve(theirs))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return ours

    async def release(self) -> None:
        """Wait until the server has finished with a channel that is closed."""
        if self._serving:
            await asyncio.wait(self._serving, timeout=_END_SECONDS)

    async def _serve(self, channel: MemoryChannel) -> None:
        try:
            await self._server.serve(channel)
        except Exception as problem:
            logger.exception("The server failed")
            channel.reason = f"the server failed: {type(problem).__name__}: {problem}"
        finally:
            await channel.close()


class ChannelTarget(ServerTarget):
    """A channel that the caller provides; it can be used once."""

    def __init__(self, channel: Channel) -> None:
        self._channel: Channel | None = channel

    async def connect(self, max_message_bytes: int = MAX_RECEIVED) -> Channel:
        """The channel."""
        channel, self._channel = self._channel, None
        if channel is None:
            raise ConnectionLost("the channel has been used already, and there is no other to connect with")
        return channel
