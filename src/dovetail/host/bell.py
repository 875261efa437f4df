"""Waking whoever waits for something to change."""

from __future__ import annotations

import asyncio


class Bell:
    """Rings for all who wait; what they wait for they look up themselves."""

    def __init__(self) -> None:
        self._ringing: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake everyone."""
        ringing, self._ringing = self._ringing, None
        if ringing is not None and not ringing.done():
            ringing.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait for the next ring, but no longer than this."""
        if self._ringing is None:
            self._ringing = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._ringing], timeout=max(seconds, 0))
