"""User interface with plain lines: for `dovetail ask --interactive` and for demonstrations."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import IO, Any, Protocol

from dovetail.cli.chat.views.rendering import exact, shortened
from dovetail.cli.terminal.progress import ProgressDisplay

from .chat_output import ChatOutput, TranscriptUI
from .colours import Colorizer, wants_colour
from .contract import Choice, Row, Suggest


class LineReader(Protocol):
    """Source of lines."""

    def question(self) -> AbstractAsyncContextManager[None]:
        """Exclusive use of the terminal for one question."""
        ...

    async def prompt(self, prompt: str) -> str:
        """Read one line; `InputClosed` at end of input."""
        ...


class LineUI(TranscriptUI):
    """Prints lines to a stream, and reads a line for every input."""

    def __init__(self, reader: LineReader, stream: IO[str], display: ProgressDisplay | None = None) -> None:
        self._reader = reader
        colorizer = Colorizer(wants_colour(os.environ, stream.isatty()))
        transcript = ChatOutput(self._write, colorizer, lambda: self.width if stream.isatty() else None)
        super().__init__(display or ProgressDisplay(stream), transcript)

    @contextlib.asynccontextmanager
    async def question(self) -> AsyncGenerator[None]:
        """Exclusive use of the terminal for one question."""
        async with self._reader.question():
            with self._transcript.question():
                yield

    def quiet(self) -> nullcontext[None]:
        """Nothing to do."""
        return nullcontext()

    def stopped_early(self) -> bool:
        """Always False."""
        return False

    def _write(self, text: str) -> None:
        self._display.write(text)

    async def line(self, prompt: str, suggest: Suggest) -> str:
        """Read one line."""
        return await self._reader.prompt(prompt)

    async def prompt(self, prompt: str, *, default: str = "", suggest: Suggest | None = None) -> str:
        """Read one line."""
        return await self._reader.prompt(prompt) or default

    async def prompt_secret(self, prompt: str) -> str:
        """Read one line; it is echoed, unlike in `PromptToolkitUI`."""
        return await self._reader.prompt(prompt)

    async def key(self, keys: Mapping[str, str]) -> str:
        """Read a line whose first letter is one of the keys."""
        prompt = "  ".join(f"[{key}] {text}" for key, text in keys.items())
        while True:
            typed = (await self._reader.prompt(f"  {prompt}: ")).lower()[:1]
            if typed in keys:
                return typed
            self.say(f"  Enter one of {', '.join(keys)}.")

    async def edit(self, text: str, what: str) -> str | None:
        """Read lines up to a single dot; None if there are none."""
        self.say(("dim", f"  Type {what} again and end with a line that is a dot; a dot alone keeps the text."))
        lines: list[str] = []
        while (line := await self._reader.prompt("  | ")) != ".":
            lines.append(line)
        return "\n".join(lines) if lines else None

    async def pick(self, title: str, rows: Sequence[Row], keys: Mapping[str, str], start: int = 0) -> Choice | None:
        """Print a numbered list; the input is a number and a key."""
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
            words = (await self._reader.prompt(f"  number and action ({help_line}), Enter leaves: ")).split()
            if not words or not rows:
                return None
            key = words[1] if len(words) > 1 else next(iter(keys))
            if words[0].isdigit() and 1 <= int(words[0]) <= len(rows) and key in keys:
                return Choice(int(words[0]) - 1, key)


def shortened_after(line: str, note: str, width: int) -> str:
    """A line with its spaces, and as much of a note as fits."""
    head = exact(line).replace("\n", " ")
    return (head + shortened(note, max(width - len(head) - 1, 10))).rstrip() if note else head.rstrip()
