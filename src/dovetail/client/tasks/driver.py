"""Contract of a task's driver: the part that talks to the server, one for each generation of tasks."""

from __future__ import annotations

from typing import Protocol

from .state import TaskState


class TaskDriver(Protocol):
    """Follows one task."""

    @property
    def id(self) -> str | None:
        """The id at the server; None for a call that is no task there."""
        ...

    async def refresh(self, state: TaskState) -> None:
        """Ask for the present state once."""
        ...

    async def follow(self, state: TaskState) -> None:
        """Publish each change and answer all questions, until the task has ended."""
        ...

    async def cancel(self, state: TaskState) -> None:
        """Cancel the task; one that has ended stays as it is."""
        ...
