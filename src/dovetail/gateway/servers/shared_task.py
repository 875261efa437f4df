"""Work that several requests wait for: it goes on when one of them is cancelled."""

from __future__ import annotations

import asyncio
from typing import TypeVar

ResultT = TypeVar("ResultT")


async def wait_for_shared(work: asyncio.Task[ResultT], cancelled: Exception) -> ResultT:
    """The result of work that others wait for too; raises `cancelled` if the work was, and not the request."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not work.cancelled() or (task is not None and task.cancelling()):
            raise
        raise cancelled from None
