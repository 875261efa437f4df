"""The task that a call becomes, as the command that waits for it sees it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, cast

from dovetail.cli.exit_status import INTERRUPTED, CommandFailed
from dovetail.cli.terminal.progress import ProgressDisplay

from .left_tasks import keep_task, way_back

if TYPE_CHECKING:
    from dovetail.client.client import Client
    from dovetail.runtime.middleware import Exchange, Proceed


class ObservedTask:
    """Notes, from the requests of a client, that its call became a task, and that this was cancelled.

    `Client.call` waits for a task as for any other call; only what is said at Ctrl-C differs.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._display: ProgressDisplay | None = None
        self._id: str | None = None
        self._ttl: float | None = None
        self._cancelled = False
        self._revision = ""

    def observe(self, client: Client, display: ProgressDisplay) -> None:
        """Observe the requests of a client."""
        self._display, self._revision = display, client.revision
        client.use(self._pass, methods=("tools/call", "tasks/cancel"))

    @property
    def is_task(self) -> bool:
        """True if the call became a task."""
        return self._id is not None

    def interrupted(self) -> CommandFailed | None:
        """The error after Ctrl-C; None for a call that did not become a task."""
        if self._id is None:
            return None
        if self._cancelled:
            text = "Cancelled: the server was told to stop the task."
        else:
            text = f"Left before the server has confirmed that the task is cancelled. {self.leave()}"
        return CommandFailed("cancelled", text, INTERRUPTED)

    def leave(self) -> str:
        """Keep the task, which may go on without this command, and return how to come back to it."""
        from dovetail.client.tasks.reference import make_reference

        assert self._id is not None
        reference = make_reference(self._id, self._options.tool, self._revision)
        problem = keep_task(self._options.target, self._options.tool, reference, self._ttl)
        way = f"It may still run; to wait for it: {way_back('wait', self._options, reference)}"
        return way if problem is None else f"{way} ({problem})"

    async def _pass(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        if exchange.method == "tasks/cancel" and self._display is not None:
            self._display.note("Cancelling the task; Ctrl-C leaves at once.")
        result = await proceed(exchange)
        if exchange.method == "tasks/cancel":
            self._cancelled = True
        elif (created := _created(exchange.revision.tasks, result)) is not None:
            self._id = str(created.get("taskId"))
            milliseconds = created.get("ttlMs", created.get("ttl"))
            self._ttl = milliseconds / 1000 if isinstance(milliseconds, (int, float)) else None
        return result


def _created(generation: str, result: dict[str, Any]) -> dict[str, Any] | None:
    """The task of a result, on either generation."""
    if generation == "extension":
        return result if result.get("resultType") == "task" else None
    task = result.get("task")
    return cast("dict[str, Any]", task) if generation == "core" and isinstance(task, dict) else None
