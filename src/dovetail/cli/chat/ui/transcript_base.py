"""What every surface shows in the same way: a transcript that scrolls by, and below it how far calls have come."""

from __future__ import annotations

import shutil

from dovetail.cli.terminal.progress import Screen

from .colours import Part
from .transcript import Transcript


class Scrolling:
    """The half of a surface that is written to; the other half, which is read from, is its own."""

    def __init__(self, screen: Screen, transcript: Transcript) -> None:
        self._screen = screen
        self._transcript = transcript

    @property
    def width(self) -> int:
        """Columns."""
        return shutil.get_terminal_size().columns

    def say(self, *parts: Part) -> None:
        """Show a line, or several."""
        self._transcript.say(*parts)

    def notice(self, *parts: Part) -> None:
        """Show a line about something that happened by itself."""
        self._transcript.notice(*parts)

    def stream(self, text: str) -> None:
        """Show a piece of a text whose end has not come yet."""
        self._transcript.stream(text)

    def progress(self, call: str, progress: float, total: float | None, message: str | None) -> None:
        """Show how far a call has come."""
        if not self._transcript.asking:
            self._transcript.end_line()
            self._screen.progress(progress, total, message, call)

    def end_progress(self, call: str | None = None) -> None:
        """Take that away."""
        self._screen.end_progress(call)
