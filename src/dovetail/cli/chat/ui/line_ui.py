"""A terminal that needs nothing but lines: for scripts' users who are asked, and for demonstrations."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import IO, Any, Protocol

from dovetail.cli.chat.views.rendering import exact, shortened
from dovetail.cli.terminal.progress import Screen

from .colours import Paint, wants_colour
from .contract import Choice, Row, Suggest
from .transcript import Transcript
from .transcript_base import Scrolling


class LineReader(Protocol):
    """Where lines come from."""

    def question(self) -> AbstractAsyncContextManager[None]:
        """The time that one question has for itself."""
        ...

    async def ask(self, prompt: str) -> str:
        """One line; `Closed` at the end of input."""
        ...


class Lines(Scrolling):
    """Shows lines on a stream, and reads lines for everything."""

    def __init__(self, reader: LineReader, stream: IO[str], screen: Screen | None = None) -> None:
        self._reader = reader
        paint = Paint(wants_colour(os.environ, stream.isatty()))
        transcript = Transcript(self._write, paint, lambda: self.width if stream.isatty() else None)
        super().__init__(screen or Screen(stream), transcript)

    @contextlib.asynccontextmanager
    async def question(self) -> AsyncGenerator[None]:
        """The time that one question has for itself."""
        async with self._reader.question():
            with self._transcript.question():
                yield

    def quiet(self) -> nullcontext[None]:
        """Nothing is to be done for it."""
        return nullcontext()

    def stopped_early(self) -> bool:
        """A line is a line."""
        return False

    def _write(self, text: str) -> None:
        self._screen.write(text)

    async def line(self, prompt: str, suggest: Suggest) -> str:
        """One line."""
        return await self._reader.ask(prompt)

    async def ask(self, prompt: str, *, default: str = "", suggest: Suggest | None = None) -> str:
        """One line."""
        return await self._reader.ask(prompt) or default

    async def ask_secret(self, prompt: str) -> str:
        """One line; a terminal that can hide it is `Keyboard`."""
        return await self._reader.ask(prompt)

    async def key(self, keys: Mapping[str, str]) -> str:
        """A line whose first letter is one of the keys."""
        prompt = "  ".join(f"[{key}] {text}" for key, text in keys.items())
        while True:
            typed = (await self._reader.ask(f"  {prompt}: ")).lower()[:1]
            if typed in keys:
                return typed
            self.say(f"  One of {', '.join(keys)}, please.")

    async def edit(self, text: str, what: str) -> str | None:
        """Lines up to one that is a single dot; none at all leaves the text as it is."""
        self.say(("dim", f"  Type {what} anew and end it with a line that is a dot; a dot alone changes nothing."))
        lines: list[str] = []
        while (line := await self._reader.ask("  | ")) != ".":
            lines.append(line)
        return "\n".join(lines) if lines else None

    async def pick(self, title: str, rows: Sequence[Row], keys: Mapping[str, str], start: int = 0) -> Choice | None:
        """The list with numbers; the answer is a number and a key."""
        self.say(("strong", title))
        heading: Any = None
        for number, row in enumerate(rows, start=1):
            if row.heading and row.heading != heading:
                self.say("  ", ("name", exact(row.heading)))
            heading = row.heading
            line = f"{number:4} {row.mark} {row.text}  "
            self.say(shortened_after(line, row.note, self.width))
        help_line = ", ".join(f"{key} {text}" for key, text in keys.items())
        while True:
            words = (await self._reader.ask(f"  number and what to do ({help_line}), Enter leaves: ")).split()
            if not words or not rows:
                return None
            key = words[1] if len(words) > 1 else next(iter(keys))
            if words[0].isdigit() and 1 <= int(words[0]) <= len(rows) and key in keys:
                return Choice(int(words[0]) - 1, key)


def shortened_after(line: str, note: str, width: int) -> str:
    """A line that keeps its blanks, and as much of a note as there is room for."""
    head = exact(line).replace("\n", " ")
    return (head + shortened(note, max(width - len(head) - 1, 10))).rstrip() if note else head.rstrip()
