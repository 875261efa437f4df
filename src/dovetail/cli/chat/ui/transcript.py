"""What scrolls by: lines and streamed text, held back while a question stands there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from contextvars import ContextVar

from .colours import Paint, Part
from .wrap_lines import folded

_WITHIN: ContextVar[bool] = ContextVar("within a question", default=False)

_MOST = 1000
"""Pieces that are held back; what comes after them is lost, as it would be off the screen."""


class Transcript:
    """Keeps a question in one piece: what others say meanwhile comes after it, and nothing can pose as a part of it."""

    def __init__(self, write: Callable[[str], None], paint: Paint, width: Callable[[], int | None]) -> None:
        """`width` is that of the terminal; None where there is none, and lines are as long as they are."""
        self._write = write
        self._width = width
        self._paint = paint
        self._middle = False
        self._asking = False
        self._held: list[str] = []
        self._held_middle = False
        self._notices: list[tuple[Part, ...]] = []

    @property
    def within(self) -> bool:
        """Whether whoever calls belongs to the question that stands there."""
        return _WITHIN.get()

    @property
    def asking(self) -> bool:
        """Whether a question stands there."""
        return self._asking

    def say(self, *parts: Part) -> None:
        """Show a line, or several."""
        if self._held_back():
            self._hold(("\n" if self._held_middle else "") + self._line(parts), middle=False)
            return
        self.end_line()
        self._write(self._line(parts))

    def notice(self, *parts: Part) -> None:
        """Show a line about something that happened by itself, as soon as no text is in the middle of a line."""
        if self._held_back() or self._middle:
            if len(self._notices) < _MOST:
                self._notices.append(parts)
        else:
            self.say(*parts)

    def stream(self, text: str) -> None:
        """Show a piece of a text whose end has not come yet."""
        if not text:
            return
        safe, middle = self._paint.line(text), not text.endswith("\n")
        if self._held_back():
            self._hold(safe, middle)
            return
        self._write(safe)
        self._middle = middle
        if not middle:
            self._tell()

    def end_line(self) -> None:
        """Begin a new line, unless there is one."""
        if self._middle:
            self._middle = False
            self._write("\n")
            self._tell()

    @contextlib.contextmanager
    def question(self) -> Generator[None]:
        """The time of a question."""
        within = _WITHIN.set(True)
        self._asking = True
        try:
            yield
        finally:
            _WITHIN.reset(within)
            self._asking = False
            self._release()

    def _line(self, parts: tuple[Part, ...]) -> str:
        width = self._width()
        return self._paint.line(*(parts if width is None else folded(parts, width))) + "\n"

    def _held_back(self) -> bool:
        return self._asking and not _WITHIN.get()

    def _hold(self, text: str, middle: bool) -> None:
        if len(self._held) < _MOST:
            self._held.append(text)
            self._held_middle = middle

    def _release(self) -> None:
        held, self._held = "".join(self._held), []
        if held:
            self.end_line()
            self._write(held)
            self._middle, self._held_middle = self._held_middle, False
        if not self._middle:
            self._tell()

    def _tell(self) -> None:
        notices, self._notices = self._notices, []
        for parts in notices:
            self.say(*parts)
