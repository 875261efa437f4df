"""What Dovetail logs while the application has the terminal: lines of the transcript, not across it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Generator

from dovetail.cli.chat.ui.contract import Surface
from dovetail.cli.chat.views.rendering import shortened

_ROOM = 300


class LogLines(logging.Handler):
    """Shows records as lines, whatever thread they come from."""

    def __init__(self, surface: Surface) -> None:
        super().__init__(logging.WARNING)
        self._surface = surface
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record, without what a traceback would add."""
        text = shortened(f"{record.levelname.lower()}: {record.getMessage()}", _ROOM)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._surface.notice, ("dim", f"  {text}"))


@contextlib.contextmanager
def shown(surface: Surface) -> Generator[None]:
    """While it lasts, warnings and errors are shown."""
    handler = LogLines(surface)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
