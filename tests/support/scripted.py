"""Scripted servers for clients in memory: the test decides each message."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from dovetail.client.targets.contract import ServerTarget
from dovetail.protocol.revisions import ENVELOPE, HANDSHAKE
from dovetail.transports.base import Channel
from dovetail.transports.memory import MemoryChannel, memory_pair
from tests.support.peer import Peer

Answers = dict[str, Any]
"""By method: a result, an exception-like `Error`, `SILENCE`, or a function of the request."""

SILENCE = object()


class Error:
    """An error to answer with."""

    def __init__(self, code: int, message: str = "no", data: Any = None) -> None:
        self.body = {"code": code, "message": message, **({} if data is None else {"data": data})}


def discovery(**changes: Any) -> dict[str, Any]:
    """What a server of the envelope era says to `server/discover`."""
    return {
        "resultType": "complete", "supportedVersions": list(ENVELOPE), "capabilities": {"tools": {}},
        "ttlMs": 0, "cacheScope": "private", **changes,
    }  # fmt: skip


def welcome(**changes: Any) -> dict[str, Any]:
    """What a server of the handshake era says to `initialize`."""
    return {
        "protocolVersion": HANDSHAKE[-1],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "scripted", "version": "1"},
        **changes,
    }


class Scripted:
    """A server: it answers from a table and keeps what it was sent. Give it to `Client`."""

    def __init__(self, **answers: Any) -> None:
        self.answers: Answers = {key.replace("_", "/", 1): value for key, value in answers.items()}
        self.asked: list[dict[str, Any]] = []
        self.peers: list[Peer] = []

    @property
    def methods(self) -> list[str]:
        """The methods that came, in order."""
        return [message["method"] for message in self.asked if "method" in message]

    @property
    def peer(self) -> Peer:
        """The newest connection."""
        return self.peers[-1]

    async def serve(self, channel: Channel) -> None:
        assert isinstance(channel, MemoryChannel)
        peer = Peer(channel)
        self.peers.append(peer)
        ended = asyncio.create_task(peer.ended.wait())
        try:
            while True:
                coming = asyncio.create_task(peer.next())
                await asyncio.wait({coming, ended}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()
                    return
                await self._take(peer, coming.result())
        finally:
            ended.cancel()

    async def _take(self, peer: Peer, message: dict[str, Any]) -> None:
        self.asked.append(message)
        if "id" not in message or "method" not in message:
            return
        answer = self.answers.get(message["method"], Error(-32601, "Method not found"))
        if callable(answer):
            answer = answer(message)
            if isinstance(answer, Awaitable):
                answer = await answer
        if answer is SILENCE:
            return
        outcome = {"error": answer.body} if isinstance(answer, Error) else {"result": answer}
        peer.send({"jsonrpc": "2.0", "id": message["id"], **outcome})


def modern(**answers: Any) -> Scripted:
    """A server of the envelope era."""
    return Scripted(server_discover=discovery(), **answers)


def legacy(**answers: Any) -> Scripted:
    """A server of the handshake era that does not know the probe."""
    return Scripted(initialize=welcome(), ping={}, **answers)


class Restartable(ServerTarget):
    """A target that makes a new server for every connection, as a command does."""

    restartable = True

    def __init__(self, *servers: Scripted, key: Any = None) -> None:
        self._servers = list(servers)
        self._tasks: set[asyncio.Task[None]] = set()
        self.key = key or object()
        self.starts = 0

    async def connect(self, max_message_bytes: int = 0) -> Channel:
        ours, theirs = memory_pair()
        server = self._servers[min(self.starts, len(self._servers) - 1)]
        self.starts += 1
        task = asyncio.create_task(self._serve(server, theirs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ours

    async def release(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, server: Scripted, channel: MemoryChannel) -> None:
        with contextlib.suppress(ConnectionError):
            await server.serve(channel)
        await channel.close()


def dying(reason: str = "the server died") -> Callable[[dict[str, Any]], Any]:
    """An answer that ends the server instead."""

    def die(message: dict[str, Any]) -> Any:
        raise ConnectionError(reason)

    return die
