"""User interface contract: output, and input of lines, keys, texts and choices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import NamedTuple, Protocol, TypeAlias

from .colours import Part


class Interrupted(Exception):
    """Ctrl-C was pressed at a prompt."""

    def __init__(self, typed: str = "") -> None:
        self.typed = typed
        """The text typed so far."""


class Suggestion(NamedTuple):
    """A completion for the last characters typed."""

    text: str
    replaces: int
    """The number of characters before the cursor that it replaces."""
    about: str = ""


Suggest: TypeAlias = "Callable[[str], Awaitable[Sequence[Suggestion]]]"
"""From the text before the cursor to suggestions."""


Status: TypeAlias = "Callable[[int], str]"
"""From the columns of the terminal to the text of the status line."""


class Row(NamedTuple):
    """A row of a list to pick from."""

    text: str
    heading: str = ""
    """The group of the row; rows of one group are consecutive."""
    mark: str = ""
    """A few characters before the text: its state."""
    note: str = ""


LiveRows: TypeAlias = "Callable[[], Sequence[Row]]"
"""Gives the rows as they are now, for a list that changes while it is open."""


class Choice(NamedTuple):
    """The chosen row, and the key of the action."""

    row: int
    key: str


class ChatUI(Protocol):
    """The user interface of the chat.

    `prompt` and `key` raise `InputClosed` (of `cli.terminal`) at end of input and `Interrupted` at Ctrl-C.
    """

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        ...

    def say(self, *parts: Part) -> None:
        """Print one or more lines."""
        ...

    def notice(self, *parts: Part) -> None:
        """Print a line about an event; deferred until streamed text has ended its line."""
        ...

    def stream(self, text: str) -> None:
        """Print a piece of streamed Markdown."""
        ...

    def end_stream(self) -> None:
        """End the streamed text."""
        ...

    def activity(self, text: str) -> None:
        """Show what is going on, in a line that is redrawn; the empty text removes it."""
        ...

    def progress(self, call: str, progress: float, total: float | None, message: str | None) -> None:
        """Update the progress bar of a call."""
        ...

    def end_progress(self, call: str | None = None) -> None:
        """Remove the bar of a call, or all bars."""
        ...

    def question(self) -> AbstractAsyncContextManager[None]:
        """Exclusive use of the terminal for one question; a line being typed is restored afterwards."""
        ...

    def quiet(self) -> AbstractContextManager[None]:
        """Do not echo keys outside of prompts."""
        ...

    def stopped_early(self) -> bool:
        """True if Ctrl-C was pressed right after the last line, before its command started."""
        ...

    def stop_key(self, stop: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `stop` if Esc is pressed while no prompt is open; other keys are kept for the next prompt."""
        ...

    def interrupt(self) -> None:
        """Ctrl-C came as a signal while nothing was running."""
        ...

    async def line(self, prompt: str, suggest: Suggest, status: Status | None = None) -> str:
        """Read a message of the chat, of one or more lines, with history; the status is shown below it.

        Blanks before it are kept, since they mark it as a message.
        """
        ...

    async def prompt(self, prompt: str, *, default: str = "", suggest: Suggest | None = None) -> str:
        """Read one line, stripped."""
        ...

    async def prompt_secret(self, prompt: str) -> str:
        """Read one line without echo."""
        ...

    async def key(self, keys: Mapping[str, str], default: str | None = None) -> str:
        """Read one of these keys; the values describe them. Enter chooses the default, or what the arrows selected."""
        ...

    async def edit(self, text: str, what: str) -> str | None:
        """Let the user edit text over several lines; None if they abort."""
        ...

    async def pick(
        self, title: str, rows: Sequence[Row] | LiveRows, keys: Mapping[str, str], start: int = 0
    ) -> Choice | None:
        """Let the user pick a row and an action; None if they leave the list."""
        ...


async def ask_back_to_list(ui: ChatUI) -> bool:
    """Wait until the user has read the output; whether they return to the list."""
    from dovetail.cli.terminal.terminal import InputClosed

    try:
        return await ui.key({"b": "back to the list", "q": "quit"}) == "b"
    except (InputClosed, Interrupted):
        return False
