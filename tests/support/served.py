"""A server and a hand-written client over memory, for tests of the messages themselves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from dovetail import Server
from dovetail.protocol.envelope import request_meta
from dovetail.protocol.revisions import NEWEST, REVISIONS
from dovetail.transports.memory import MemoryChannel, memory_pair
from dovetail.types.capabilities import ClientCapabilities, Implementation
from tests.support.peer import Peer, nothing_left, notification

ME = Implementation("by hand", "1")


class Caller(Peer):
    """Asks a server on one revision and sees the bare answers; notifications are kept apart."""

    def __init__(self, channel: MemoryChannel, revision: str, capabilities: ClientCapabilities) -> None:
        super().__init__(channel)
        self.revision = REVISIONS[revision]
        self.capabilities = capabilities
        self.heard: list[dict[str, Any]] = []
        self._ids = 0

    async def open(self) -> dict[str, Any]:
        """The handshake, or a discovery; what the server says of itself."""
        if self.revision.era == "envelope":
            return await self.result("server/discover")
        result = await self.result(
            "initialize",
            protocolVersion=self.revision.name,
            capabilities=self.revision.emit(self.capabilities),
            clientInfo={"name": ME.name, "version": ME.version},
        )
        self.send(notification("notifications/initialized"))
        return result

    def params(self, given: dict[str, Any]) -> dict[str, Any]:
        """Params as this revision wants them."""
        if self.revision.era == "handshake":
            return given
        meta = request_meta(self.revision, ME, self.capabilities)
        return {**given, "_meta": {**meta, **given.get("_meta", {})}}

    def begin(self, method: str, **params: Any) -> int:
        """Ask without waiting; the id of the request."""
        self._ids += 1
        self.request(self._ids, method, **self.params(params))
        return self._ids

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request."""
        return await self.answer_to(self.begin(method, **params))

    async def answer_to(self, id: int) -> dict[str, Any]:
        while (message := await self.next()).get("id") != id or "method" in message:
            self.heard.append(message)
        return message

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request, which must have one."""
        answer = await self.ask(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    async def refusal(self, method: str, **params: Any) -> dict[str, Any]:
        """The error of a request, which must have one."""
        answer = await self.ask(method, **params)
        assert "error" in answer, answer
        return answer["error"]

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of a tool call."""
        return await self.result("tools/call", name=tool, arguments=arguments)

    async def hear(self, method: str) -> dict[str, Any]:
        """Wait for a notification, and give its params."""
        while True:
            for message in self.heard:
                if message.get("method") == method:
                    self.heard.remove(message)
                    return message.get("params", {})
            self.heard.append(await self.next())


@contextlib.asynccontextmanager
async def served(
    server: Server,
    revision: str = NEWEST.name,
    *,
    capabilities: ClientCapabilities | None = None,
    opened: bool = True,
    grace: float = 5.0,
) -> AsyncIterator[Caller]:
    """A client of a server; when it ends the server has let go, and no task is left behind."""
    before = asyncio.all_tasks()
    ours, theirs = memory_pair()
    serving = asyncio.create_task(server.serve(theirs, grace=grace))
    caller = Caller(ours, revision, capabilities or ClientCapabilities())
    try:
        if opened:
            await caller.open()
        yield caller
    finally:
        await ours.close()
        await serving
    await nothing_left(before)
