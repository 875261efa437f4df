"""A thousand clients at one address that misbehave: idle sockets, slow readers, floods of all that can be opened.

    python -m tests.load.misbehave PORT SOURCE_ADDRESS

Prints one line of JSON when all are connected: for each kind, how many were accepted and how many refused. Then it goes
on at a steady rate, and holds what it has until its standard input ends.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

from tests.support.raw import ENVELOPE, ENVELOPE_META

KINDS = {"idle": 250, "half a request": 50, "slow reader": 200, "websocket": 200, "http+sse": 100, "subscription": 200}
SESSIONS = 1500
"""Sessions that are begun before the line is printed; more than one address may have."""
FLOOD_SECONDS = 0.02
"""The pause between two further attempts."""
_ACCEPT = "accept: application/json, text/event-stream\r\n"


class Misbehaviour:
    """The clients, and what became of them."""

    def __init__(self, port: int, source: str) -> None:
        self._port, self._source = port, source
        self._held: list[asyncio.StreamWriter] = []
        self.outcomes: dict[str, Counter[str]] = {kind: Counter() for kind in (*KINDS, "session")}

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, local_addr=(self._source, 0), limit=16 * 1024
        )
        self._held.append(writer)
        return reader, writer

    def _post(self, message: dict[str, object], revision: str, *headers: str) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, **message}).encode()
        lines = "".join(f"{header}\r\n" for header in headers)
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\ncontent-type: application/json\r\n{_ACCEPT}"
            f"mcp-protocol-version: {revision}\r\n{lines}content-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def _status(self, kind: str, request: bytes, *good: int) -> None:
        """Send a request on a connection of its own, and note whether it was accepted."""
        try:
            reader, writer = await self._connect()
            writer.write(request)
            status = int((await reader.readuntil(b"\r\n")).split()[1])
        except (OSError, EOFError):
            self.outcomes[kind]["refused"] += 1
            return
        self.outcomes[kind]["accepted" if status in good else "refused"] += 1
        if status not in good:
            writer.transport.abort()
            self._held.remove(writer)

    async def idle(self) -> None:
        await self._connect()
        self.outcomes["idle"]["accepted"] += 1

    async def half(self) -> None:
        _, writer = await self._connect()
        writer.write(b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n")
        self.outcomes["half a request"]["accepted"] += 1

    async def slow_reader(self) -> None:
        """Ask for 4 MB and read nothing beyond the status."""
        params: dict[str, object] = {"name": "text", "arguments": {"characters": 4_000_000}, "_meta": ENVELOPE_META}
        headers = ("mcp-method: tools/call", "mcp-name: text")
        request = self._post({"method": "tools/call", "params": params}, ENVELOPE, *headers)
        await self._status("slow reader", request, 200)

    async def websocket(self) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        request = (
            f"GET /mcp/ws HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
            f"sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\nsec-websocket-protocol: mcp\r\n\r\n"
        )
        await self._status("websocket", request.encode(), 101)

    async def legacy_sse(self) -> None:
        request = f"GET /sse HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\naccept: text/event-stream\r\n\r\n"
        await self._status("http+sse", request.encode(), 200)

    async def subscription(self) -> None:
        params = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE_META}
        request = self._post(
            {"method": "subscriptions/listen", "params": params}, ENVELOPE, "mcp-method: subscriptions/listen"
        )
        await self._status("subscription", request, 200)

    async def session(self) -> None:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "flood", "version": "1"},
        }
        request = self._post({"method": "initialize", "params": params}, "2025-11-25", "connection: close")
        await self._status("session", request, 200)

    async def run(self) -> None:
        """Open everything, print the outcome, and go on until standard input ends."""
        actions: dict[str, Callable[[], Awaitable[None]]] = {
            "idle": self.idle,
            "half a request": self.half,
            "slow reader": self.slow_reader,
            "websocket": self.websocket,
            "http+sse": self.legacy_sse,
            "subscription": self.subscription,
        }
        for kind, number in KINDS.items():
            for start in range(0, number, 25):
                await asyncio.gather(*(actions[kind]() for _ in range(min(25, number - start))))
        for _ in range(0, SESSIONS, 25):
            await asyncio.gather(*(self.session() for _ in range(25)))
        print(json.dumps(self.outcomes), flush=True)
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        while not ended.done():
            await self.session()
            await self.websocket()
            await asyncio.wait([ended], timeout=FLOOD_SECONDS)


if __name__ == "__main__":
    os.nice(10)  # real attackers have processors of their own, and do not take those of the server
    asyncio.run(Misbehaviour(int(sys.argv[1]), sys.argv[2]).run())
