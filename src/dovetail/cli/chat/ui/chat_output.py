"""The transcript: lines and streamed text that scroll by, deferred while a question is open.

Long lines are wrapped here, with a margin on continuation lines: the terminal would continue them at its left
edge, where text of a server could pose as a line of ours.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import pairwise

from dovetail.cli.output import printable, width_of
from dovetail.cli.terminal.progress import ProgressDisplay

from .colours import Colorizer, Part, Tone
from .streamed_text import StreamedText


class TranscriptUI:
    """The output half of a `ChatUI`, shared by all of them; subclasses add the input half."""

    def __init__(self, display: ProgressDisplay, transcript: ChatOutput) -> None:
        self._display = display
        self._transcript = transcript

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return shutil.get_terminal_size().columns

    def say(self, *parts: Part) -> None:
        """Print one or more lines."""
        self._transcript.say(*parts)

    def notice(self, *parts: Part) -> None:
        """Print a line about an event."""
        self._transcript.notice(*parts)

    def stream(self, text: str) -> None:
        """Print a piece of streamed Markdown."""
        self._transcript.stream(text)

    def end_stream(self) -> None:
        """End the streamed text."""
        self._transcript.end_stream()

    def activity(self, text: str) -> None:
        """Show what is going on, in a line that is redrawn."""
        self._display.status("" if self._transcript.question_open else text)

    def progress(self, call: str, progress: float, total: float | None, message: str | None) -> None:
        """Update the progress bar of a call."""
        if not self._transcript.question_open:
            self._display.progress(progress, total, message, call)

    def end_progress(self, call: str | None = None) -> None:
        """Remove it."""
        self._display.end_progress(call)


_MARGIN = re.compile(r"( *)(\| |[<!~+*x] )?")
_DEEP = "    "
_TAB = 8
_NARROW = 20


def wrap_parts(parts: Sequence[Part], width: int) -> list[Part]:
    """Wrap the parts to the width, with margins on continuation lines."""
    pieces: list[tuple[Tone, str]] = [
        ("plain", printable(part)) if isinstance(part, str) else (part[0], printable(part[1])) for part in parts
    ]
    whole = "".join(text for _, text in pieces)
    width = max(width, _NARROW)
    if whole.isascii() and "\t" not in whole and all(len(line) <= width for line in whole.split("\n")):
        return list(pieces)
    return _with_breaks(pieces, _break_positions(whole, width))


def _break_positions(whole: str, width: int) -> dict[int, str]:
    """Positions of line breaks, each with the margin of the continuation."""
    edges: dict[int, str] = {}
    begin = 0
    for line in whole.split("\n"):
        margin = _margin(line, width)
        edges |= {begin + place: margin for place in _line_breaks(line, width, len(margin))}
        begin += len(line) + 1
    return edges


def _line_breaks(line: str, width: int, margin: int) -> Iterator[int]:
    """Positions of line breaks in one line: after the last space, or within a word that is very long."""
    column, blank, at_blank = 0, 0, 0
    for place, char in enumerate(line):
        room = _TAB - column % _TAB if char == "\t" else width_of(char)
        if column + room > width:
            soft = at_blank > max(width // 3, margin)
            yield blank if soft else place
            column = margin + (column - at_blank if soft else 0)
            at_blank = 0
        column += room
        if char == " ":
            blank, at_blank = place + 1, column


def _with_breaks(pieces: Sequence[tuple[Tone, str]], edges: Mapping[int, str]) -> list[Part]:
    made: list[Part] = []
    begin = 0
    for tone, text in pieces:
        places = [place - begin for place in edges if begin <= place < begin + len(text)]
        cuts = [0, *places, len(text)]
        words = [text[first:last] for first, last in pairwise(cuts)]
        margins = ["", *(f"\n{edges[begin + place]}" for place in places)]
        made.append((tone, "".join(margin + word for margin, word in zip(margins, words, strict=True))))
        begin += len(text)
    return made


def _margin(line: str, width: int) -> str:
    """The margin of continuation lines."""
    match = _MARGIN.match(line)
    assert match is not None
    blanks, mark = match[1], match[2] or ""
    margin = blanks + (mark if mark == "| " else " " * len(mark))
    return margin if 0 < len(margin) <= width // 2 else _DEEP


_IN_QUESTION: ContextVar[bool] = ContextVar("within a question", default=False)

_MOST = 1000
"""Deferred pieces; further ones are dropped."""


class ChatOutput:
    """Output that keeps a question in one piece: other output comes after it, and cannot pose as a part of it."""

    def __init__(
        self, write: Callable[[str], None], colorizer: Colorizer, width: Callable[[], int | None], text: StreamedText
    ) -> None:
        """`width` is that of the terminal; None means that lines are not wrapped."""
        self._write = write
        self._width = width
        self._colorizer = colorizer
        self._text = text
        self._question_open = False
        self._deferred: list[Callable[[], None]] = []
        self._notices: list[tuple[Part, ...]] = []

    @property
    def in_question(self) -> bool:
        """True if the caller belongs to the open question."""
        return _IN_QUESTION.get()

    @property
    def question_open(self) -> bool:
        """True if a question is open."""
        return self._question_open

    def say(self, *parts: Part) -> None:
        """Print one or more lines."""
        if self._is_deferred():
            self._defer(lambda: self.say(*parts))
            return
        self.end_line()
        self._write(self._line(parts))

    def notice(self, *parts: Part) -> None:
        """Print a line about an event, once no streamed text is in the middle of a block."""
        if self._is_deferred() or self._text.is_open:
            if len(self._notices) < _MOST:
                self._notices.append(parts)
        else:
            self.say(*parts)

    def stream(self, text: str) -> None:
        """Print a piece of streamed text."""
        if self._is_deferred():
            self._defer(lambda: self.stream(text))
        elif text:
            self._write_text(self._text.feed(text, self._width()))
            if not self._text.is_open:
                self._flush_notices()

    def end_line(self) -> None:
        """Complete the open block of streamed text, because other output follows."""
        if self._text.is_open:
            self._write_text(self._text.flush(self._width()))
            self._flush_notices()

    def end_stream(self) -> None:
        """The streamed text is complete."""
        if self._is_deferred():
            self._defer(self.end_stream)
            return
        self.end_line()
        self._text.reset()

    @contextlib.contextmanager
    def question(self) -> Generator[None]:
        """Defer the output of others during a question."""
        within = _IN_QUESTION.set(True)
        self._question_open = True
        try:
            yield
        finally:
            _IN_QUESTION.reset(within)
            self._question_open = False
            self._release()

    def _line(self, parts: tuple[Part, ...]) -> str:
        width = self._width()
        return self._colorizer.line(*(parts if width is None else wrap_parts(parts, width))) + "\n"

    def _write_text(self, text: str) -> None:
        if text:
            self._write(text)

    def _is_deferred(self) -> bool:
        return self._question_open and not _IN_QUESTION.get()

    def _defer(self, output: Callable[[], None]) -> None:
        if len(self._deferred) < _MOST:
            self._deferred.append(output)

    def _release(self) -> None:
        deferred, self._deferred = self._deferred, []
        notices, self._notices = self._notices, []
        for output in deferred:
            output()
        self._notices += notices
        if not self._text.is_open:
            self._flush_notices()

    def _flush_notices(self) -> None:
        notices, self._notices = self._notices, []
        for parts in notices:
            self.say(*parts)
