"""What happens at the servers by itself, as lines between everything else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dovetail.cli.chat.ui.colours import Tone
from dovetail.cli.chat.ui.contract import Surface
from dovetail.cli.chat.views.rendering import counted, one_line

if TYPE_CHECKING:
    from dovetail.host.events import HostEvent, ServerStatus

_AGAIN = 1.0
"""Seconds before the same line is shown again; no server can flood the terminal."""
_MOST = 500


class Happenings:
    """Tells what a person should know of; the rest is in `/servers`, `/log` and `/traffic`."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._states: dict[str, str] = {}
        self._said: dict[str, float] = {}

    def tell(self, event: HostEvent) -> None:
        """Tell of one event; the host's `on_event`."""
        from dovetail.host.events import ResourceChange, ServerStatus

        detail = event.detail
        if isinstance(detail, ServerStatus):
            self._status(detail)
        elif isinstance(detail, ResourceChange):
            what = f"is not watched any more: {one_line(detail.problem)}" if detail.problem else "has changed"
            self._say("name", f"~ {one_line(detail.uri)} of {event.server} {what}")
        elif event.kind == "definition":
            self._say("bad", f"! {event.server}: {detail.kind} held back until you approve; /tools shows it")
        elif event.kind == "config":
            self._say("dim", f"  configuration: {one_line(str(detail))}")

    def _status(self, status: ServerStatus) -> None:
        before = self._states.get(status.key)
        self._states[status.key] = status.state
        if before == status.state:
            return
        if status.state == "ready":
            self._say("good", f"+ {status.key} is ready: {counted(status.tools, 'tool')}, revision {status.revision}")
        elif status.state in ("failed", "waiting"):
            self._say("bad", f"! {status.key} {status.state}: {one_line(status.error or '')}")

    def _say(self, tone: Tone, line: str) -> None:
        now = time.monotonic()
        if now - self._said.get(line, float("-inf")) < _AGAIN:
            return
        if len(self._said) >= _MOST:
            self._said.clear()
        self._said[line] = now
        self._surface.notice((tone, line))
