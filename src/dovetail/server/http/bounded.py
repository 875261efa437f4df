"""HTTP/1.1 on httptools as uvicorn has it, with a bound to what the head of a request may take."""

from __future__ import annotations

import asyncio

from .corked import CorkedHttpTools

MAX_HEAD_BYTES = 65_536
"""Twice what the endpoint takes, so that it is the endpoint that answers whoever is near it."""

HEAD_SECONDS = 30.0
"""How long a head may take to arrive, and a new connection to send its first byte."""


class BoundedHttp(CorkedHttpTools):
    """One connection; whoever never ends the head of a request is cut off."""

    _head = 0
    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first byte, but not for ever."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(HEAD_SECONDS, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._at_rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take some bytes; uvicorn puts the path into the scope when the head is whole."""
        super().data_received(data)
        scope = self.scope
        if scope is not None and "path" in scope:  # pyright: ignore[reportUnnecessaryComparison]
            if self._head:
                self._at_rest()
        elif not self.transport.is_closing() and self.transport.get_protocol() is self:
            self._head += len(data)
            if self._head > MAX_HEAD_BYTES:
                self.send_400_response("The head of the request is too large.")
            elif self._alarm is None:
                self._alarm = self.loop.call_later(HEAD_SECONDS, self.timeout_keep_alive_handler)

    def _at_rest(self) -> None:
        self._head = 0
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
