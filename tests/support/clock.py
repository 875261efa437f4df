"""A loop's clock that moves only when a test says so."""

import asyncio


class Clock:
    """Replaces the time of the running loop. Keep the sum below a test's own patience."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._now = loop.time()
        loop.time = lambda: self._now

    async def advance(self, seconds: float) -> None:
        """Let time pass, and everything that is due by then happen."""
        self._now += seconds
        for _ in range(10):
            await asyncio.sleep(0)
