"""User interface with prompt_toolkit: history, completion, single keys, an editor and lists."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import clear_typeahead, get_typeahead, store_typeahead
from prompt_toolkit.keys import Keys
from prompt_toolkit.shortcuts import CompleteStyle, PromptSession

from dovetail.cli.chat.views.rendering import shortened
from dovetail.cli.output import printable
from dovetail.cli.terminal.progress import ProgressDisplay
from dovetail.cli.terminal.terminal import InputClosed, discard_typeahead, keys_at_once
from dovetail.protocol.errors import DovetailError

from .chat_output import ChatOutput, TranscriptUI
from .colours import Colorizer, wants_colour
from .contract import Choice, Interrupted, LiveRows, Row, Status, Suggest
from .key_prompt import ESCAPE_WAIT, QUIET, KeyPrompt, bindings
from .message_prompt import message_prompt
from .picker import Picker
from .streamed_text import streamed_text

_ABOUT = 48


class SuggestionCompleter(Completer):
    """Completion menu from asynchronous suggestions; an error of a server means no menu."""

    def __init__(self, suggest: Suggest) -> None:
        self._suggest = suggest

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Empty: suggestions are asynchronous."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Suggestions for the text before the cursor."""
        try:
            suggestions = await self._suggest(document.text_before_cursor)
        except DovetailError:
            return
        for suggestion in suggestions:
            if not suggestion.text.isprintable():
                continue
            yield Completion(
                suggestion.text,
                start_position=-suggestion.replaces,
                display_meta=shortened(suggestion.about, _ABOUT) or None,
            )


_EDITING = "Ctrl-S or Esc Enter: save  Ctrl-C: discard changes  ^X ^E: $EDITOR"

T = TypeVar("T")


class _QuestionPending(Exception):
    """A question needs the terminal; the current prompt is interrupted."""


class PromptToolkitUI(TranscriptUI):
    """The terminal of this process."""

    def __init__(self, history: History | None = None) -> None:
        colorizer = Colorizer(wants_colour(os.environ, sys.stdout.isatty()))
        display = ProgressDisplay(sys.stdout)
        super().__init__(display, ChatOutput(self._write, colorizer, lambda: self.width, streamed_text(display)))
        self._input = create_input()
        self._history = history or InMemoryHistory()
        self._question_lock = asyncio.Lock()
        self._app: Application[Any] | None = None
        self._pending: list[str] = []
        self._flushing: asyncio.Task[None] | None = None
        self._interrupted = False
        self._filters: dict[str, str] = {}
        """Filters of lists, by title, for when the user returns to a list."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._prompt_ended = float("-inf")

    def progress(self, call: str, progress: float, total: float | None, message: str | None) -> None:
        """Update the progress bar of a call, unless a prompt is open."""
        if self._app is None:
            super().progress(call, progress, total, message)

    @contextlib.asynccontextmanager
    async def question(self) -> AsyncGenerator[None]:
        """Exclusive use of the terminal for one question; input typed before it is discarded."""
        async with self._question_lock:
            self._interrupted = await self._close_prompt() or time.monotonic() - self._prompt_ended < QUIET
            clear_typeahead(self._input)
            discard_typeahead(sys.stdin.fileno())
            try:
                with self._transcript.question():
                    yield
            finally:
                self._interrupted = False

    def quiet(self) -> AbstractContextManager[None]:
        """Do not echo keys outside of prompts, and do not wait for Enter to read them."""
        return keys_at_once()

    @contextlib.contextmanager
    def stop_key(self, stop: Callable[[], None]) -> Generator[None]:
        """Call `stop` if Esc is pressed while no prompt is open; other keys are kept for the next prompt."""
        loop = asyncio.get_running_loop()

        def ended() -> None:
            # Esc alone; arrows and Alt begin with it, and come in one piece.
            pressed = self._input.flush_keys()
            if [press.key for press in pressed] == [Keys.Escape]:
                stop()
            else:
                store_typeahead(self._input, pressed)

        def ready() -> None:
            store_typeahead(self._input, self._input.read_keys())
            loop.call_later(ESCAPE_WAIT, ended)

        with self._input.attach(ready):
            yield

    def interrupt(self) -> None:
        """Nothing to do: at a prompt, Ctrl-C is a key."""

    def stopped_early(self) -> bool:
        """True if Ctrl-C was pressed together with Enter, before the terminal could turn it into a signal."""
        ahead = get_typeahead(self._input)  # this removes them
        kept = [press for press in ahead if press.key != Keys.ControlC]
        store_typeahead(self._input, kept)
        return len(kept) < len(ahead)

    async def line(self, prompt: str, suggest: Suggest, status: Status | None = None) -> str:
        """Read a message of the chat, of one or more lines, with history; the status is shown below it."""
        session = message_prompt(self._input, self._history)
        toolbar = None if status is None else lambda: status(self.width)
        return await self._typed(session, prompt, "", suggest, keep_blanks=True, bottom_toolbar=toolbar)

    async def prompt(self, prompt: str, *, default: str = "", suggest: Suggest | None = None) -> str:
        """Read one line, stripped."""
        return await self._typed(self._session(), prompt, default, suggest)

    async def prompt_secret(self, prompt: str) -> str:
        """Read one line without echo."""
        text = await self._prompted(self._session(), printable(prompt), is_password=True)
        self.say(("strong", prompt), "********")
        return text

    async def key(self, keys: Mapping[str, str], default: str | None = None) -> str:
        """Read one of these keys; the values describe them."""
        prompt = KeyPrompt(keys, self._input, accepting=not self._interrupted, default=default)
        key = await self._run_restarting(prompt.application, prompt.run)
        self._interrupted = False
        self.say(("strong", f"  → {keys[key]}"))
        return key

    async def edit(self, text: str, what: str) -> str | None:
        """Let the user edit text over several lines; None if they abort."""
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
        except (Interrupted, InputClosed):
            return None

    async def pick(
        self, title: str, rows: Sequence[Row] | LiveRows, keys: Mapping[str, str], start: int = 0
    ) -> Choice | None:
        """Let the user pick a row and an action; None if they leave the list."""
        picker = Picker(title, rows, keys, start, self._filters.pop(title, ""))
        try:
            choice = await self._run_recreated(lambda: picker.application(self._input))
        except (Interrupted, InputClosed):
            return None
        if choice is not None:
            self._filters[title] = picker.filter_text
        return choice

    async def _typed(
        self,
        session: PromptSession[str],
        prompt: str,
        draft: str,
        suggest: Suggest | None,
        keep_blanks: bool = False,
        **options: Any,
    ) -> str:
        completer = SuggestionCompleter(suggest) if suggest is not None else None
        text = await self._prompted(session, printable(prompt), draft, completer=completer, **options)
        self.say(("strong", prompt), text.rstrip().replace("\n", "\n" + " " * len(prompt)))
        return text.rstrip() if keep_blanks else text.strip()

    async def _prompted(self, session: PromptSession[str], prompt: str, draft: str = "", **options: Any) -> str:
        """Read text; what was typed survives an interrupting question."""

        async def run() -> str:
            nonlocal draft
            try:
                return await session.prompt_async(prompt, default=draft, handle_sigint=False, **options)
            except _QuestionPending:
                draft = session.default_buffer.text
                raise
            except KeyboardInterrupt:
                raise Interrupted(session.default_buffer.text) from None

        return await self._run_restarting(session.app, run)

    def _session(self) -> PromptSession[str]:
        return PromptSession(
            history=InMemoryHistory(),
            complete_style=CompleteStyle.COLUMN,
            complete_while_typing=True,
            enable_suspend=True,
            erase_when_done=True,
            input=self._input,
        )

    async def _close_prompt(self) -> bool:
        """Close the open prompt, if any; returns whether there was one."""
        app = self._app
        if app is None:
            return False
        if app.is_running and not app.is_done:
            app.exit(exception=_QuestionPending())
        await self._idle.wait()
        return True

    async def _run_restarting(self, app: Application[Any], run: Callable[[], Awaitable[T]]) -> T:
        """Run a prompt; outside of a question it is interrupted by questions and then restarted."""
        while True:
            try:
                return await self._run_once(app, run)
            except _QuestionPending:
                continue

    async def _run_recreated(self, make: Callable[[], Application[T]]) -> T:
        while True:
            app = make()
            try:
                return await self._run_once(app, lambda app=app: app.run_async(handle_sigint=False))
            except _QuestionPending:
                continue

    async def _run_once(self, app: Application[Any], run: Callable[[], Awaitable[T]]) -> T:
        if not self._transcript.in_question:
            async with self._question_lock:  # questions go first
                pass
        self._transcript.end_line()
        self._display.hide()
        self._app = app
        self._idle.clear()
        try:
            return await run()
        except EOFError:
            raise InputClosed from None
        finally:
            self._app = None
            self._prompt_ended = time.monotonic()
            self._idle.set()
            self._display.show()
            self._flush_pending()

    def _write(self, text: str) -> None:
        if self._app is None:
            self._display.write(text)
            return
        self._pending.append(text)
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.ensure_future(self._write_above())

    async def _write_above(self) -> None:
        """Write above the open prompt."""
        from prompt_toolkit.application import in_terminal

        async with in_terminal():
            self._flush_pending()

    def _flush_pending(self) -> None:
        late, self._pending = "".join(self._pending), []
        if late:
            sys.stdout.write(late if late.endswith("\n") else late + "\n")
            sys.stdout.flush()
