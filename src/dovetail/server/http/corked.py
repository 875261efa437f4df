"""uvicorn's HTTP protocol, writing once where it would write twice.

uvicorn hands the head of an answer and its body to the transport one after the other, and uvloop sends each
at once: two system calls, which are the dearest part of a short answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Cork:
    """A transport that sends together what one turn of the loop brings."""

    __slots__ = ("_call_soon", "_held", "_transport", "get_extra_info", "is_closing", "pause_reading", "resume_reading")

    def __init__(self, transport: asyncio.Transport, call_soon: Any) -> None:
        self._transport = transport
        self._call_soon = call_soon
        self._held: list[bytes] = []
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    def write(self, data: bytes) -> None:
        """Hold what there is until the turn is over."""
        if not self._held:
            self._call_soon(self._send)
        self._held.append(data)

    def close(self) -> None:
        """Send what is held, then close."""
        self._send()
        self._transport.close()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the bare connection over, as to a WebSocket."""
        self._send()
        self._transport.set_protocol(protocol)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _send(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self._transport.write(held[0] if len(held) == 1 else b"".join(held))


class CorkedHttpTools(HttpToolsProtocol):
    """HTTP over a corked transport."""

    def connection_made(self, transport: Any) -> None:  # type: ignore[override]
        """Begin to serve a connection."""
        super().connection_made(Cork(transport, self.loop.call_soon))  # type: ignore[arg-type]
