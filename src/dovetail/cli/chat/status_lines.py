"""Host events and log records as lines of the transcript."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Generator
from typing import TYPE_CHECKING

import msgspec

from dovetail.cli.chat.ui.colours import Tone
from dovetail.cli.chat.ui.contract import ChatUI
from dovetail.cli.chat.views.rendering import MARGIN, addressed_to_user, counted, one_line, shortened

if TYPE_CHECKING:
    from dovetail.host.events import HostEvent, ServerStatus
    from dovetail.host.tasks.host_task import HostTask


_AGAIN = 1.0
"""Seconds before the same line is shown again, so that no server can flood the terminal."""
_MOST = 500


_TASK_ENDS: dict[str, tuple[Tone, str]] = {
    "completed": ("good", "has completed"),
    "cancelled": ("warn", "was cancelled"),
    "lost": ("bad", "is not at its server any more"),
}


class StatusLines:
    """Shows events that matter to the user; the rest is in `/servers`, `/log` and `/traffic`."""

    def __init__(self, ui: ChatUI) -> None:
        self._ui = ui
        self._states: dict[str, str] = {}
        self._errors: dict[str, str] = {}
        """The error of each server that is being restarted, which further attempts mostly repeat."""
        self._shown_at: dict[str, float] = {}

    def on_event(self, event: HostEvent) -> None:
        """Show one event; the host's `on_event`."""
        from dovetail.host.events import ResourceChange, ServerStatus

        detail = event.detail
        if isinstance(detail, ServerStatus):
            self._status(msgspec.structs.replace(detail, error=addressed_to_user(detail.error or "") or None))
        elif isinstance(detail, ResourceChange):
            what = f"is no longer watched: {one_line(detail.problem)}" if detail.problem else "has changed"
            self._say("name", f"~ {one_line(detail.uri)} of {event.server} {what}")
        elif event.kind == "task":
            self._task(detail)
        elif event.kind == "definition":
            self._say("bad", f"! {event.server}: {detail.kind} withheld until you approve; /tools shows it")
        elif event.kind == "config":
            self._say("dim", f"  configuration: {one_line(str(detail))}")

    def _task(self, task: HostTask) -> None:
        """Show the end of a task that nothing waits for."""
        if not task.is_ended or not task.in_background:
            return
        name = f"task {task.number} ({task.server}: {one_line(task.tool)})"
        tone, what = _TASK_ENDS.get(task.status, ("bad", "has failed"))
        self._say(tone, f"~ {name} {what}; /tasks shows it")

    def _status(self, status: ServerStatus) -> None:
        before = self._states.get(status.key)
        self._states[status.key] = status.state
        if before == status.state:
            return
        if status.state in ("ready", "idle", "disabled"):
            self._errors.pop(status.key, None)
        if status.state == "ready":
            self._say("good", f"+ {status.key} is ready: {counted(status.tools, 'tool')}, revision {status.revision}")
        elif status.state in ("failed", "waiting"):
            self._say_error(status)

    def _say_error(self, status: ServerStatus) -> None:
        """Show why a server is not running: at the first of several attempts, and when it is given up."""
        error, shown = status.error or "", self._errors.get(status.key)
        first, *more = error.split("\n")
        if status.state == "waiting":
            if shown is not None:
                return
            self._errors[status.key] = error
            what = "is not running and will be restarted"
        else:
            # Not "failed": the error may be that the user refused to start it.
            what = "is not running"
            if shown and error.startswith(shown):
                first, more = error.removeprefix(shown).lstrip("; \n") or "with the same error", []
        self._say(
            "bad", "\n".join([f"! {status.key} {what}: {one_line(first)}", *(MARGIN + one_line(x) for x in more)])
        )

    def _say(self, tone: Tone, line: str) -> None:
        now = time.monotonic()
        if now - self._shown_at.get(line, float("-inf")) < _AGAIN:
            return
        if len(self._shown_at) >= _MOST:
            self._shown_at.clear()
        self._shown_at[line] = now
        self._ui.notice((tone, line))


_ROOM = 300


class TranscriptLogHandler(logging.Handler):
    """Shows log records as lines, from any thread."""

    def __init__(self, ui: ChatUI) -> None:
        super().__init__(logging.WARNING)
        self._ui = ui
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record without its traceback."""
        text = shortened(f"{record.levelname.lower()}: {record.getMessage()}", _ROOM)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._ui.notice, ("dim", f"  {text}"))


@contextlib.contextmanager
def log_to_transcript(ui: ChatUI) -> Generator[None]:
    """Show warnings and errors in the transcript."""
    handler = TranscriptLogHandler(ui)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
