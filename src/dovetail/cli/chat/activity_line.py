"""The line that is shown while a model or a tool works."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import AsyncGenerator

from dovetail.cli.chat.ui.contract import ChatUI
from dovetail.cli.chat.views.rendering import counted, shortened

from .usage import short_count

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK = 0.1
_NAME = 30


class ActivityLine:
    """The line that says that something is going on: who works, since when, and how much there is."""

    def __init__(self, ui: ChatUI, worker: str) -> None:
        self._ui = ui
        self._worker = shortened(worker, _NAME)
        self._began = time.monotonic()
        self._characters = 0
        self.running: dict[str, str] = {}
        """Names of the tools that run, by the id of the call."""

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return time.monotonic() - self._began

    def count(self, text: str) -> None:
        """Count streamed text."""
        self._characters += len(text)

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Show the line during the body."""
        drawing = asyncio.ensure_future(self._draw())
        try:
            yield
        finally:
            drawing.cancel()
            self._ui.activity("")

    async def _draw(self) -> None:
        frames = itertools.cycle(_FRAMES if (sys.stdout.encoding or "").lower().startswith("utf") else "|/-\\")
        for frame in frames:
            self._ui.activity(f"{frame} {self._words()}")
            await asyncio.sleep(_TICK)

    def _words(self) -> str:
        names = list(self.running.values())
        who = self._worker if not names else names[0] if len(names) == 1 else counted(len(names), "tool")
        # The endpoint says how many tokens it wrote at the end; a token has about four characters.
        tokens = [f"~{short_count(max(self._characters // 4, 1))} tokens"] if self._characters else []
        return " · ".join([who, f"{self.seconds:.0f} s", *tokens, "Esc stops"])
