"""Raw connections to the server with tasks, over the transports that the tests of tasks share."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dovetail.protocol.envelope import CLIENT_CAPABILITIES
from tests.matrix import tasks_server
from tests.matrix.connections import Place, Transport, wired
from tests.support.oracle import Oracle
from tests.support.raw_peer import RawPeer, answers

EXTENSION = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
CAN_ANSWER = {"elicitation": {}, "sampling": {}, "roots": {}}
TRANSPORTS: tuple[Transport, ...] = ("memory", "stdio", "http", "websocket")
SCRIPT = str(Path(tasks_server.__file__))
ENDED = ("completed", "failed", "cancelled")

over_each_transport = pytest.mark.parametrize("transport", TRANSPORTS)
STYLE = {"action": "accept", "content": {"style": "cubist"}}
SIZE = {"action": "accept", "content": {"size": 3}}


def tasks_target(transport: Transport) -> Place:
    """The server with tasks."""
    return Place(transport, tasks_server.build, (sys.executable, SCRIPT))


class TaskPeer:
    """The client's end of a raw connection, with the requests of tasks."""

    params: ClassVar[dict[str, Any]]
    """What every `tools/call` carries that is to become a task."""
    meta: ClassVar[dict[str, Any]]
    """What every request carries in its `_meta`."""

    def __init__(self, wire: RawPeer, oracle: Oracle) -> None:
        self.wire = wire
        self.oracle = oracle

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        meta = {**self.meta, **params.pop("_meta", {})}
        return await self.wire.ask(method, **params, **({"_meta": meta} if meta else {}))

    def begin(self, method: str, **params: Any) -> Any:
        """Send a request; gives its id."""
        meta = {**self.meta, **params.pop("_meta", {})}
        request = self.wire.request(method, **params, **({"_meta": meta} if meta else {}))
        self.wire.send(request)
        return request["id"]

    async def answer(self, id: Any) -> dict[str, Any]:
        """Wait for the answer to a request, which may have come before that to a later one."""
        for message in self.wire.aside:
            if answers(message, id):
                self.wire.aside.remove(message)
                return message
        return await self.wire.wait_for(lambda message: answers(message, id))

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request, which must have one."""
        answer = await self.ask(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, method: str, **params: Any) -> dict[str, Any]:
        """The error of a request, which must have one."""
        answer = await self.ask(method, **params)
        assert "error" in answer, answer
        return answer["error"]

    async def plain(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that is no task."""
        return await self.result("tools/call", name=tool, arguments=arguments)

    async def let(self, event: str) -> None:
        """Make something happen."""
        await self.plain("let", event=event)

    async def happened(self, event: str) -> None:
        """Wait until something has happened."""
        await self.plain("happened", event=event)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of a call that may become a task."""
        return await self.result("tools/call", name=tool, arguments=arguments, **self.params)

    async def create(self, tool: str, **arguments: Any) -> str:
        """Call a tool as a task; gives the id of the task."""
        result = await self.call(tool, **arguments)
        return result.get("task", result)["taskId"]

    async def get(self, id: str) -> dict[str, Any]:
        """The state of a task."""
        return await self.result("tasks/get", taskId=id)

    async def until(self, id: str, *statuses: str, holds: Callable[[dict[str, Any]], bool] = bool) -> dict[str, Any]:
        """Poll until a task has one of these statuses; an end that is none of them fails."""
        while (task := await self.get(id))["status"] not in statuses or not holds(task):
            assert task["status"] in statuses or task["status"] not in ENDED, task
            await asyncio.sleep(0.01)
        return task

    async def hear(self, method: str, holds: Callable[[dict[str, Any]], bool] = bool) -> dict[str, Any]:
        """The params of the next message of a method that was not looked at before."""

        def wanted(message: Any) -> bool:
            return message.get("method") == method and holds(message["params"])

        for message in self.wire.aside:
            if wanted(message):
                self.wire.aside.remove(message)
                return message["params"]
        return (await self.wire.wait_for(wanted))["params"]


class ExtensionPeer(TaskPeer):
    """On 2026-07-28: what a client can do is said with every request."""

    params: ClassVar[dict[str, Any]] = {}
    meta: ClassVar[dict[str, Any]] = {CLIENT_CAPABILITIES: {**CAN_ANSWER, "extensions": {EXTENSION: {}}}}

    async def update(self, id: str, **answers: Any) -> dict[str, Any]:
        """Answer questions of a task."""
        return await self.result("tasks/update", taskId=id, inputResponses=answers)


class CorePeer(TaskPeer):
    """On 2025-11-25: a client asks for a task."""

    params: ClassVar[dict[str, Any]] = {"task": {}}
    meta: ClassVar[dict[str, Any]] = {}

    async def question(self, method: str = "elicitation/create") -> dict[str, Any]:
        """The next question of the server, whole."""

        def wanted(message: Any) -> bool:
            return message.get("method") == method and "id" in message

        for message in self.wire.aside:
            if wanted(message):
                self.wire.aside.remove(message)
                return message
        return await self.wire.wait_for(wanted)

    def reply(self, question: dict[str, Any], result: dict[str, Any]) -> None:
        """Answer a question of a task."""
        meta = {"_meta": {RELATED: question["params"]["_meta"][RELATED]}}
        self.wire.send({"jsonrpc": "2.0", "id": question["id"], "result": {**result, **meta}})


@contextlib.asynccontextmanager
async def extension_peer(place: Any) -> AsyncGenerator[ExtensionPeer]:
    """A raw connection on 2026-07-28."""
    async with wired(place, "2026-07-28") as (wire, oracle):
        yield ExtensionPeer(wire, oracle)


@contextlib.asynccontextmanager
async def core_peer(place: Any, **capabilities: Any) -> AsyncGenerator[CorePeer]:
    """A raw connection on 2025-11-25, past the handshake."""
    async with wired(place, "2025-11-25", greet=False) as (wire, oracle):
        await wire.shake_hands("2025-11-25", **{**CAN_ANSWER, **capabilities})
        yield CorePeer(wire, oracle)
