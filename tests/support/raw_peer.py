"""A peer that sends any message, valid or not, and shows what comes back."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from dovetail.protocol.envelope import CLIENT_CAPABILITIES, CLIENT_INFO, VERSION
from dovetail.protocol.revisions import REVISIONS
from dovetail.transports.base import Channel
from dovetail.transports.process import ProcessChannel
from dovetail.wire.jsonrpc import Id
from dovetail.wire.lines import TooLong
from tests.support.oracle import Oracle

INFO = {"name": "wire", "version": "1"}


class RawPeer:
    """The client's end of a channel, message by message; everything is shown to an oracle too."""

    def __init__(self, channel: Channel, oracle: Oracle, revision: str | None) -> None:
        self._channel = channel
        self._oracle = oracle
        self._revision = revision
        self._incoming: asyncio.Queue[Any] = asyncio.Queue()
        self._last_id = 0
        self.aside: list[Any] = []
        """What came while an answer was awaited, and was not that answer."""
        channel.open(self)

    @property
    def pid(self) -> int:
        """The server's process id, over stdio."""
        assert isinstance(self._channel, ProcessChannel)
        assert self._channel.pid is not None
        return self._channel.pid

    def received(self, line: bytes) -> None:
        self._oracle("received", line)
        self._incoming.put_nowait(json.loads(line))

    def overlong(self, line: TooLong) -> None:
        raise AssertionError(f"a line of {line.size} bytes came")

    def failed(self, id: Id, problem: Exception) -> None:
        self._incoming.put_nowait(problem)

    def disconnected(self, reason: str | None) -> None:
        self._incoming.put_nowait(ConnectionError(reason))

    def send(self, message: dict[str, Any] | list[Any] | bytes) -> None:
        """Send bytes as they are, or anything else as JSON."""
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._oracle("sent", line)
        self._channel.send(line)

    def request(self, method: str, id: Any = None, **params: Any) -> dict[str, Any]:
        """A well-formed request of this wire's revision; given an id or with a new one."""
        if id is None:
            self._last_id += 1
            id = self._last_id
        body = {"jsonrpc": "2.0", "id": id, "method": method}
        meta = {**self.meta(), **params.pop("_meta", {})}
        if meta:
            params["_meta"] = meta
        return {**body, "params": params} if params else body

    def meta(self) -> dict[str, Any]:
        """The `_meta` that a request of this revision must carry."""
        if self._revision is None or REVISIONS[self._revision].era == "handshake":
            return {}
        return {VERSION: self._revision, CLIENT_INFO: INFO, CLIENT_CAPABILITIES: {}}

    async def receive(self) -> Any:
        """The next message; the end of the connection raises."""
        message = await self._incoming.get()
        if isinstance(message, Exception):
            raise message
        return message

    async def wait_for(self, wanted: Callable[[Any], bool]) -> Any:
        """The first message that is wanted; those before it are kept aside."""
        while not wanted(message := await self.receive()):
            self.aside.append(message)
        return message

    async def ask(self, method: str, id: Any = None, **params: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        request = self.request(method, id, **params)
        self.send(request)
        return await self.wait_for(lambda message: answers(message, request["id"]))

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and wait for its answer."""
        return await self.ask("tools/call", name=tool, arguments=arguments)

    async def quiet(self) -> list[Any]:
        """What the peer has sent up to now beyond what was read.

        A question is a fence: messages keep their order, so all that was sent before its answer is there.
        """
        self.aside.clear()
        handshake = self._revision is not None and REVISIONS[self._revision].era == "handshake"
        await self.ask("ping" if handshake else "server/discover")
        return self.aside

    async def shake_hands(self, revision: str, **capabilities: Any) -> dict[str, Any]:
        """Initialize; returns the server's half."""
        answer = await self.ask("initialize", protocolVersion=revision, capabilities=capabilities, clientInfo=INFO)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]


def answers(message: Any, id: Any) -> bool:
    """Whether a message is the answer to this id."""
    return (
        isinstance(message, dict)
        and "method" not in message
        and type(message.get("id")) is type(id)
        and message.get("id") == id
    )
