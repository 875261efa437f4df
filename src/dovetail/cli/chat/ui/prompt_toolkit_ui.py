"""A real terminal: lines with history and completion, single keys, an editor and lists, one thing at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import clear_typeahead, get_typeahead, store_typeahead
from prompt_toolkit.keys import Keys
from prompt_toolkit.shortcuts import CompleteStyle, PromptSession

from dovetail.cli.output import printable
from dovetail.cli.terminal.progress import Screen
from dovetail.cli.terminal.terminal import Closed, forget_typed, unseen

from .colours import Paint, wants_colour
from .completer import TypingAid
from .contract import Choice, Interrupted, Row, Suggest
from .key_bindings import bindings
from .key_prompt import QUIET, KeyPrompt
from .picker import Picker
from .transcript import Transcript
from .transcript_base import Scrolling

_EDITING = "Ctrl-S or Esc Enter: done  Ctrl-C: as it was  ^X ^E: $EDITOR"

T = TypeVar("T")


class _GiveWay(Exception):
    """A question needs the terminal; what is being typed waits."""


class Keyboard(Scrolling):
    """The terminal of this process."""

    def __init__(self, history: History | None = None) -> None:
        paint = Paint(wants_colour(os.environ, sys.stdout.isatty()))
        super().__init__(Screen(sys.stdout), Transcript(self._write, paint, lambda: self.width))
        self._input = create_input()
        self._history = history or InMemoryHistory()
        self._turn = asyncio.Lock()
        self._app: Application[Any] | None = None
        self._late: list[str] = []
        self._flushing: asyncio.Task[None] | None = None
        self._displaced = False
        self._narrowed: dict[str, str] = {}
        """How lists were narrowed to which a person comes back, by their titles."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._ended = float("-inf")

    def progress(self, call: str, progress: float, total: float | None, message: str | None) -> None:
        """Show how far a call has come, while nothing is typed."""
        if self._app is None:
            super().progress(call, progress, total, message)

    @contextlib.asynccontextmanager
    async def question(self) -> AsyncGenerator[None]:
        """The time that one question has the terminal for itself; what was typed before it does not answer it."""
        async with self._turn:
            self._displaced = await self._cleared() or time.monotonic() - self._ended < QUIET
            clear_typeahead(self._input)
            forget_typed(sys.stdin.fileno())
            try:
                with self._transcript.question():
                    yield
            finally:
                self._displaced = False

    def quiet(self) -> AbstractContextManager[None]:
        """The time in which keys that nobody asked for are not shown."""
        return unseen()

    def stopped_early(self) -> bool:
        """Whether Ctrl-C was pressed together with Enter, before the terminal could make a signal of it."""
        ahead = get_typeahead(self._input)  # which takes them away
        kept = [press for press in ahead if press.key != Keys.ControlC]
        store_typeahead(self._input, kept)
        return len(kept) < len(ahead)

    async def line(self, prompt: str, suggest: Suggest) -> str:
        """A line of the person's own accord, which is kept for another time."""
        return await self._typed(self._session(self._history), prompt, "", suggest)

    async def ask(self, prompt: str, *, default: str = "", suggest: Suggest | None = None) -> str:
        """One line, without the blanks around it."""
        return await self._typed(self._session(), prompt, default, suggest)

    async def ask_secret(self, prompt: str) -> str:
        """One line that is not shown."""
        text = await self._prompted(self._session(), printable(prompt), is_password=True)
        self.say(("strong", prompt), "********")
        return text

    async def key(self, keys: Mapping[str, str]) -> str:
        """One of these keys, each with what it does."""
        prompt = KeyPrompt(keys, self._input, listening=not self._displaced)
        key = await self._hold(prompt.application, prompt.run)
        self._displaced = False
        self.say(("strong", f"  → {keys[key]}"))
        return key

    async def edit(self, text: str, what: str) -> str | None:
        """The text as the person changed it, over several lines; None where they gave it up."""
        try:
            return await self._prompted(
                self._session(),
                "",
                draft=text,
                multiline=True,
                key_bindings=bindings({"c-s": lambda event: event.current_buffer.validate_and_handle()}),
                bottom_toolbar=f" {what}: {_EDITING}",
                enable_open_in_editor=True,
            )
        except (Interrupted, Closed):
            return None

    async def pick(self, title: str, rows: Sequence[Row], keys: Mapping[str, str], start: int = 0) -> Choice | None:
        """A row and a key; None where the person left the list."""
        picker = Picker(title, rows, keys, start, self._narrowed.pop(title, ""))
        try:
            choice = await self._hold_anew(lambda: picker.application(self._input))
        except (Interrupted, Closed):
            return None
        if choice is not None:
            self._narrowed[title] = picker.narrowed
        return choice

    async def _typed(self, session: PromptSession[str], prompt: str, draft: str, suggest: Suggest | None) -> str:
        aid = TypingAid(suggest) if suggest is not None else None
        text = await self._prompted(session, printable(prompt), draft, completer=aid)
        self.say(("strong", prompt), text)
        return text.strip()

    async def _prompted(self, session: PromptSession[str], prompt: str, draft: str = "", **options: Any) -> str:
        """A text that is typed, which survives a question in between."""

        async def run() -> str:
            nonlocal draft
            try:
                return await session.prompt_async(prompt, default=draft, handle_sigint=False, **options)
            except _GiveWay:
                draft = session.default_buffer.text
                raise
            except KeyboardInterrupt:
                raise Interrupted(session.default_buffer.text) from None

        return await self._hold(session.app, run)

    def _session(self, history: History | None = None) -> PromptSession[str]:
        return PromptSession(
            history=history or InMemoryHistory(),
            auto_suggest=AutoSuggestFromHistory() if history is not None else None,
            complete_style=CompleteStyle.COLUMN,
            complete_while_typing=True,
            enable_suspend=True,
            erase_when_done=True,
            input=self._input,
        )

    async def _cleared(self) -> bool:
        """Take away the prompt that is there, if any; whether there was one."""
        app = self._app
        if app is None:
            return False
        if app.is_running and not app.is_done:
            app.exit(exception=_GiveWay())
        await self._idle.wait()
        return True

    async def _hold(self, app: Application[Any], run: Callable[[], Awaitable[T]]) -> T:
        """Have the terminal until there is an answer; outside of a question, give way to questions."""
        while True:
            try:
                return await self._held(app, run)
            except _GiveWay:
                continue

    async def _hold_anew(self, make: Callable[[], Application[T]]) -> T:
        while True:
            app = make()
            try:
                return await self._held(app, lambda app=app: app.run_async(handle_sigint=False))
            except _GiveWay:
                continue

    async def _held(self, app: Application[Any], run: Callable[[], Awaitable[T]]) -> T:
        if not self._transcript.within:
            async with self._turn:  # whoever has a question goes first
                pass
        self._transcript.end_line()
        self._screen.hide()
        self._app = app
        self._idle.clear()
        try:
            return await run()
        except EOFError:
            raise Closed from None
        finally:
            self._app = None
            self._ended = time.monotonic()
            self._idle.set()
            self._screen.show()
            self._flush_late()

    def _write(self, text: str) -> None:
        if self._app is None:
            self._screen.write(text)
            return
        self._late.append(text)
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.ensure_future(self._write_above())

    async def _write_above(self) -> None:
        """Write above the prompt that is there."""
        from prompt_toolkit.application import in_terminal

        async with in_terminal():
            self._flush_late()

    def _flush_late(self) -> None:
        late, self._late = "".join(self._late), []
        if late:
            sys.stdout.write(late if late.endswith("\n") else late + "\n")
            sys.stdout.flush()
