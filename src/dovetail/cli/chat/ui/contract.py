"""What the application needs of a terminal: showing lines, and asking a person for lines, keys, texts and choices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import NamedTuple, Protocol, TypeAlias

from .colours import Part


class Interrupted(Exception):
    """The person pressed Ctrl-C while something was asked."""

    def __init__(self, typed: str = "") -> None:
        self.typed = typed
        """What stood there."""


class Suggestion(NamedTuple):
    """Something that can be put in place of the last characters typed."""

    text: str
    replaces: int
    """How many characters before the cursor it takes the place of."""
    about: str = ""


Suggest: TypeAlias = "Callable[[str], Awaitable[Sequence[Suggestion]]]"
"""From what stands before the cursor to what could stand there."""


class Row(NamedTuple):
    """One line of a list to pick from."""

    text: str
    heading: str = ""
    """The group that it belongs to; rows of one group follow each other."""
    mark: str = ""
    """A few characters before it: whether it is on, or what state it is in."""
    note: str = ""


class Choice(NamedTuple):
    """Which row, and what is to be done with it."""

    row: int
    key: str


class Surface(Protocol):
    """A terminal, or what stands in for one.

    `ask` and `key` raise `Closed` (of `cli.terminal`) at the end of input and `Interrupted` at Ctrl-C.
    """

    @property
    def width(self) -> int:
        """Columns."""
        ...

    def say(self, *parts: Part) -> None:
        """Show a line, or several."""
        ...

    def notice(self, *parts: Part) -> None:
        """Show a line about something that happened by itself; not in the middle of a streamed text."""
        ...

    def stream(self, text: str) -> None:
        """Show a piece of a text whose end has not come yet."""
        ...

    def progress(self, call: str, progress: float, total: float | None, message: str | None) -> None:
        """Show how far a call has come, each with a bar of its own."""
        ...

    def end_progress(self, call: str | None = None) -> None:
        """Take the bar of a call away, or all of them."""
        ...

    def question(self) -> AbstractAsyncContextManager[None]:
        """The time that one question has the terminal for itself; what the person was typing comes back after it."""
        ...

    def quiet(self) -> AbstractContextManager[None]:
        """The time in which keys that nobody asked for are not shown."""
        ...

    def stopped_early(self) -> bool:
        """Whether the person wanted to stop what their last line says before it began."""
        ...

    async def line(self, prompt: str, suggest: Suggest) -> str:
        """A line of the person's own accord, which is kept for another time."""
        ...

    async def ask(self, prompt: str, *, default: str = "", suggest: Suggest | None = None) -> str:
        """One line, without the blanks around it."""
        ...

    async def ask_secret(self, prompt: str) -> str:
        """One line that is not shown."""
        ...

    async def key(self, keys: Mapping[str, str]) -> str:
        """One of these keys, each with what it does."""
        ...

    async def edit(self, text: str, what: str) -> str | None:
        """The text as the person changed it, over several lines; None where they gave it up."""
        ...

    async def pick(self, title: str, rows: Sequence[Row], keys: Mapping[str, str], start: int = 0) -> Choice | None:
        """A row and a key; None where the person left the list."""
        ...


async def back(surface: Surface) -> bool:
    """Let what was shown be read before the list covers it; whether the person goes back to the list."""
    from dovetail.cli.terminal.terminal import Closed

    try:
        return await surface.key({"b": "back to the list", "q": "leave"}) == "b"
    except (Closed, Interrupted):
        return False
