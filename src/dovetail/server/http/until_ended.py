"""uvicorn that serves until it is told to end, by whoever runs it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator

import uvicorn

_TICK_SECONDS = 1.0
"""How often the date of the answers is renewed."""


class UntilEnded(uvicorn.Server):
    """Says when it is ready, and serves until `end`; signals are not its business."""

    def __init__(self, config: uvicorn.Config, begun: Callable[[], None]) -> None:
        super().__init__(config)
        self._begun = begun
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Come to an end, now."""
        self._ended.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave them to who runs us: uvicorn would raise them again at the end."""
        yield

    async def main_loop(self) -> None:
        """Wait for the end."""
        await self.on_tick(0)
        self._begun()
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._ended.wait()
            await self.on_tick(0)
