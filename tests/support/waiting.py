"""Waiting for what a test can see but nobody announces."""

import asyncio
from collections.abc import Callable


async def until(true: Callable[[], object]) -> None:
    """Wait until something is true; the test's own patience is the limit."""
    while not true():
        await asyncio.sleep(0.001)


async def settled(turns: int = 20) -> None:
    """Let everything happen that needs nothing but turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
