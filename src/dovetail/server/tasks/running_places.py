"""The places for tasks that a process runs at once: of all, of one client, and of one tool."""

from __future__ import annotations

from collections import Counter

MAX_RUNNING_TASKS = 200
"""Tasks that one process runs at once; others wait in the store. One that waits for answers does not count."""

MAX_RUNNING_TASKS_EACH = 100
"""The same for one principal, or one address."""


class RunningPlaces:
    """Counts running tasks.

    A tool that limits its calls at once (`concurrency`) has so many places too: tasks that wait for their tool must not
    take the places of others.
    """

    def __init__(self) -> None:
        self._clients: Counter[str] = Counter()
        self._tools: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._clients.total()

    @property
    def is_full(self) -> bool:
        """True if this process runs as many tasks as it may."""
        return len(self) >= MAX_RUNNING_TASKS

    def has_room(self, client: str, tool: str, limit: int | None) -> bool:
        """True if a task of a client may run; `limit` is how many of its tool may."""
        if self.is_full or self._clients[client] >= MAX_RUNNING_TASKS_EACH:
            return False
        return limit is None or self._tools[tool] < limit

    def take(self, client: str, tool: str) -> None:
        """Count a task that begins to run."""
        self._clients[client] += 1
        self._tools[tool] += 1

    def give_back(self, client: str, tool: str) -> None:
        """Count a task that has ended, or waits for answers."""
        for counts, key in ((self._clients, client), (self._tools, tool)):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]
