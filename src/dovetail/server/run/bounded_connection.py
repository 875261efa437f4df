"""The limits in time that an HTTP connection has, whichever parser reads its requests."""

from __future__ import annotations

import asyncio
from typing import Any

from . import connection_limits
from .coalescing_transport import CoalescingTransport


class BoundedConnection(asyncio.Protocol):
    """A connection that is closed when a head is too slow, and when its peer does not read.

    It comes before a protocol of uvicorn among the base classes, to which its calls of `super` go.
    """

    transport: Any
    config: Any
    loop: asyncio.AbstractEventLoop
    timeout_keep_alive_task: asyncio.TimerHandle | None
    timeout_keep_alive_handler: Any
    _unset_keepalive_if_required: Any
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Serve a new connection; its first byte must arrive in time."""
        super().connection_made(CoalescingTransport(transport, self.loop, self.config.write_watch))  # type: ignore[arg-type]
        seconds = connection_limits.HEAD_SECONDS
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        self._stop_head_timer()
        self._unset_keepalive_if_required()
        self.transport.lost()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The peer does not read."""
        super().pause_writing()
        self.transport.writing_paused()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        super().resume_writing()
        self.transport.writing_resumed()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
