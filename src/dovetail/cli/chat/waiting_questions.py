"""Questions of tasks in the background, which wait until the user has time for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dovetail.host.tasks.host_task import HostTask

_TICK = 1.0


class WaitingQuestions:
    """Questions by the task that asks; `/tasks` answers them."""

    def __init__(self) -> None:
        self._waiting: dict[HostTask, asyncio.Event] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    async def turn(self, task: HostTask) -> None:
        """Wait until the user wants to answer the question of a task."""
        wanted = self._waiting.setdefault(task, asyncio.Event())
        try:
            await wanted.wait()
        finally:
            if self._waiting.get(task) is wanted:
                del self._waiting[task]

    def answer(self, task: HostTask) -> bool:
        """Ask the question of a task now; whether it has one."""
        wanted = self._waiting.get(task)
        if wanted is None:
            return False
        wanted.set()
        return True

    async def answered(self, task: HostTask) -> None:
        """Wait until a task has the answer to its question, and a moment longer for its end."""
        while task.status == "input_required" and not task.is_ended:
            await task.changes(_TICK)
        if not task.is_ended:
            await task.changes(_TICK)
