"""Servers that our client may meet and that no Dovetail server is: each a function from message to messages.

In memory `OddServer(name)` is served as it is; over stdio this file is run with the name as its argument;
every other transport has a raw server in tests/support/raw_servers.py, which serves such a function.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from dovetail.transports.base import Channel
from dovetail.wire.jsonrpc import Id
from dovetail.wire.lines import TooLong

Message = dict[str, Any]
Answer = Callable[[Message], list[Any]]

WELCOME = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "0"}}
EXIT = None
"""Among the answers: the server ends here."""


def result(message: Message, **fields: Any) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], "result": fields}


def error(message: Message, code: int, text: str, data: Any = None) -> Message:
    body = {"code": code, "message": text, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": message["id"], "error": body}


def handshake(message: Message, version: str) -> list[Any]:
    """Answer like a server of the handshake era."""
    if message.get("method") == "initialize":
        return [result(message, protocolVersion=version, **WELCOME)]
    if message.get("method") == "tools/list":
        return [result(message, tools=[])]
    return []


def greet(message: Message) -> list[Any] | None:
    """Greet on whatever revision the client wants; None for everything that is no greeting."""
    method, capabilities = message.get("method"), WELCOME["capabilities"]
    if method == "initialize":
        return [result(message, protocolVersion=message["params"]["protocolVersion"], **WELCOME)]
    if method == "server/discover":
        stamp = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
        return [result(message, supportedVersions=["2026-07-28"], capabilities=capabilities, **stamp)]
    return [] if "id" not in message or method is None else None


def listed(message: Message, tools: list[Any], **more: Any) -> list[Any]:
    return [result(message, tools=tools, resultType="complete", ttlMs=0, cacheScope="private", **more)]


def method_not_found(message: Message) -> list[Any]:
    """An old server that does not know the probe."""
    if message.get("method") == "server/discover":
        return [error(message, -32601, "Method not found")]
    return handshake(message, "2025-06-18")


def not_initialized(message: Message) -> list[Any]:
    """An old server that wants the handshake first, in words of its own."""
    if message.get("method") == "server/discover":
        return [error(message, -32000, "Received request before initialization was complete")]
    return handshake(message, "2024-11-05")


def silent(message: Message) -> list[Any]:
    """An old server that ignores what it does not know."""
    return handshake(message, "2025-11-25")


def exits(message: Message) -> list[Any]:
    """An old server that ends when it is not greeted by the handshake."""
    if message.get("method") == "server/discover":
        return [EXIT]
    return handshake(message, "2025-03-26")


def never_answers(message: Message) -> list[Any]:
    """A server that is there and says nothing."""
    return []


def from_nowhere(message: Message) -> list[Any]:
    """A server that offers a revision of the handshake era that never was."""
    if message.get("method") == "server/discover":
        return [error(message, -32601, "Method not found")]
    return handshake(message, "1999-12-31")


def newer(message: Message) -> list[Any]:
    """A server that speaks a revision yet to come, and the one before it."""
    stamp = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if message["method"] == "server/discover":
        return [result(message, supportedVersions=["2031-01-01", "2026-07-28"], capabilities={}, **stamp)]
    return listed(message, [])


def much_newer(message: Message) -> list[Any]:
    """A server that speaks nothing that is known yet."""
    data = {"supported": ["2031-01-01"], "requested": "2026-07-28"}
    return [error(message, -32022, "Unsupported protocol version", data)]


def batching(message: Message) -> list[Any]:
    """A server of 2025-03-26 that answers and notifies in one batch."""
    if message.get("method") == "tools/list":
        changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        return [[changed, changed], [result(message, tools=[])]]
    return handshake(message, "2025-03-26")


def mystery(message: Message) -> list[Any]:
    """A server that answers calls with a result type that nobody announced."""
    return greet(message) or [result(message, resultType="mystery", content=[])]


def liar(message: Message) -> list[Any]:
    """A server whose tool returns something else than its output schema says."""
    if message.get("method") == "tools/list":
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        return listed(message, [{"name": "n", "inputSchema": {"type": "object"}, "outputSchema": schema}])
    greeting = greet(message)
    said = {
        "content": [{"type": "text", "text": "x"}],
        "structuredContent": {"n": "x"},
        "resultType": "complete",
    }
    return [result(message, **said)] if greeting is None else greeting


def circular(message: Message) -> list[Any]:
    """A server whose list leads in a circle."""
    greeting = greet(message)
    return listed(message, [], nextCursor="again") if greeting is None else greeting


def endless(message: Message) -> list[Any]:
    """A server whose list has no end."""
    greeting = greet(message)
    return listed(message, [], nextCursor=f"page {message['id']}") if greeting is None else greeting


def dies(message: Message) -> list[Any]:
    """A server that ends in the middle of a call."""
    greeting = greet(message)
    return [EXIT] if greeting is None else greeting


def noisy(message: Message) -> list[Any]:
    """A server that prints among its messages, and asks where its revision lets it or not."""
    greeting = greet(message)
    if greeting is not None:
        return greeting
    noise = [b"Starting up...", b"{}", {"jsonrpc": "2.0", "id": "q", "method": "ping"}]
    return [*noise, *listed(message, [])]


def old_code(message: Message) -> list[Any]:
    """A server that says "not found" in the way of before 2026-07-28, whatever it speaks."""
    greeting = greet(message)
    return [error(message, -32002, "Resource not found")] if greeting is None else greeting


SERVERS: dict[str, Answer] = {
    each.__name__: each
    for each in (
        *(method_not_found, not_initialized, silent, exits, never_answers),
        *(from_nowhere, newer, much_newer, batching, mystery),
        *(liar, circular, endless, dies, noisy, old_code),
    )
}


def encoded(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode()


class OddServer:
    """The server of this name, in memory."""

    def __init__(self, name: str) -> None:
        self._answer = SERVERS[name]
        self._channel: Channel | None = None
        self._ended = asyncio.Event()

    async def serve(self, channel: Channel) -> None:
        self._channel = channel
        channel.open(self)
        await self._ended.wait()
        await channel.close()

    def received(self, line: bytes) -> None:
        assert self._channel is not None
        for message in self._answer(json.loads(line)):
            if message is EXIT:
                self._ended.set()
            else:
                self._channel.send(encoded(message))

    def overlong(self, line: TooLong) -> None: ...

    def failed(self, id: Id, problem: Exception) -> None: ...

    def disconnected(self, reason: str | None) -> None:
        self._ended.set()


def main() -> None:
    """Serve over stdio."""
    answer = SERVERS[sys.argv[1]]
    for line in sys.stdin:
        for message in answer(json.loads(line)):
            if message is EXIT:
                return
            sys.stdout.buffer.write(encoded(message) + b"\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
