"""User interface with plain lines: for dumb terminals, `dovetail ask --interactive` and demonstrations."""

from __future__ import annotations

import asyncio
import contextlib
import os
import textwrap
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import IO, Any, Protocol

from dovetail.cli.chat.views.rendering import exact, shortened
from dovetail.cli.terminal.progress import ProgressDisplay
from dovetail.cli.terminal.terminal import Terminal

from .chat_output import ChatOutput, TranscriptUI
from .colours import Colorizer, wants_colour
from .contract import Choice, Interrupted, LiveRows, Row, Status, Suggest
from .streamed_text import streamed_text


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
        self._reading: asyncio.Future[str] | None = None
        self._prompt = ""
        colorizer = Colorizer(wants_colour(os.environ, stream.isatty()))
        display = display or ProgressDisplay(stream)
        self._stream = stream
        super().__init__(display, ChatOutput(self._write, colorizer, self._line_width, streamed_text(display)))

    @contextlib.asynccontextmanager
    async def question(self) -> AsyncGenerator[None]:
        """Exclusive use of the terminal for one question."""
        async with self._reader.question():
            with self._transcript.question():
                yield

    def _line_width(self) -> int | None:
        return self.width if self._stream.isatty() else None

    def quiet(self) -> nullcontext[None]:
        """Nothing to do."""
        return nullcontext()

    def stopped_early(self) -> bool:
        """Always False."""
        return False

    def stop_key(self, stop: Callable[[], None]) -> nullcontext[None]:
        """Nothing to do: keys are read by the line."""
        return nullcontext()

    def interrupt(self) -> None:
        """End the prompt for a line, if it is open."""
        if self._reading is not None:
            self._reading.cancel()

    def _write(self, text: str) -> None:
        if self._reading is not None and isinstance(self._reader, Terminal):
            text = f"\n{text}{self._prompt}"
        self._display.write(text)

    async def line(self, prompt: str, suggest: Suggest, status: Status | None = None) -> str:
        """Read one line; what is printed meanwhile stands on lines of its own."""
        self._prompt = prompt
        self._reading = asyncio.ensure_future(self._reader.prompt(prompt))
        try:
            await asyncio.wait([self._reading])
            if self._reading.cancelled():
                self._display.write("\n")
                raise Interrupted
            return self._reading.result()
        finally:
            self._reading.cancel()
            self._reading = None

    async def prompt(self, prompt: str, *, default: str = "", suggest: Suggest | None = None) -> str:
        """Read one line."""
        return await self._reader.prompt(prompt) or default

    async def prompt_secret(self, prompt: str) -> str:
        """Read one line; it is echoed, unlike in `PromptToolkitUI`."""
        return await self._reader.prompt(prompt)

    async def key(self, keys: Mapping[str, str], default: str | None = None) -> str:
        """Read a line whose first letter is one of the keys; an empty line is the default."""
        items = [f"[{key}] {text}" for key, text in keys.items()]
        while True:
            typed = (await self._reader.prompt(self._fitted(items))).lower()[:1] or default or ""
            if typed in keys:
                return typed
            self.say(f"  Enter one of {', '.join(keys)}.")

    def _fitted(self, items: Sequence[str]) -> str:
        """Items as a prompt; what does not fit on its line is printed before."""
        lines = textwrap.wrap("  ".join(item.replace(" ", "\0") for item in items), max(self.width - 6, 20))
        *before, last = [line.replace("\0", " ") for line in lines]
        for line in before:
            self.say(f"  {line}")
        return f"  {last}: "

    async def edit(self, text: str, what: str) -> str | None:
        """Read lines up to a single dot; None if there are none."""
        self.say(("dim", f"  Type {what} again, then a dot on a line of its own; a dot alone keeps it."))
        lines: list[str] = []
        while (line := await self._reader.prompt("  | ")) != ".":
            lines.append(line)
        return "\n".join(lines) if lines else None

    async def pick(
        self, title: str, rows: Sequence[Row] | LiveRows, keys: Mapping[str, str], start: int = 0
    ) -> Choice | None:
        """Print a numbered list; the input is a number and a key."""
        rows = rows() if callable(rows) else rows
        self.say(("strong", title))
        heading: Any = None
        for number, row in enumerate(rows, start=1):
            if row.heading and row.heading != heading:
                self.say("  ", ("name", exact(row.heading)))
            heading = row.heading
            line = f"{number:4} {row.mark} {row.text}  "
            self.say(shortened_after(line, row.note, self.width))
        actions = "actions: " + ", ".join(f"{key} {text}" for key, text in keys.items())
        for line in textwrap.wrap(actions, max(self.width - 3, 20)):
            self.say(("dim", f"  {line}"))
        while True:
            prompt = "  number and action, Enter leaves: "
            words = (await self._reader.prompt(prompt)).split()
            if not words or not rows:
                return None
            key = words[1] if len(words) > 1 else next(iter(keys))
            if words[0].isdigit() and 1 <= int(words[0]) <= len(rows) and key in keys:
                return Choice(int(words[0]) - 1, key)


def shortened_after(line: str, note: str, width: int) -> str:
    """A line with its spaces, and as much of a note as fits."""
    head = exact(line).replace("\n", " ")
    return (head + shortened(note, max(width - len(head) - 1, 10))).rstrip() if note else head.rstrip()
