"""The prompt for messages: several lines, history, and a status line below."""

from __future__ import annotations

from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import CompleteStyle, PromptSession
from prompt_toolkit.styles import Style

from .key_prompt import ESCAPE_WAIT

_REFRESH = 1.0
"""Seconds between two looks at the status."""


def message_prompt(source: Input, history: History) -> PromptSession[str]:
    """Create the prompt. Enter sends; Alt-Enter, Ctrl-J, or a backslash before Enter begin a new line."""
    session: PromptSession[str] = PromptSession(
        history=history,
        auto_suggest=AutoSuggestFromHistory(),
        complete_style=CompleteStyle.COLUMN,
        # Room for the menu is kept only where there can be one; the status would be far below the line.
        complete_while_typing=Condition(_completes),
        enable_suspend=True,
        erase_when_done=True,
        input=source,
        multiline=True,
        prompt_continuation=lambda width, number, wrapped: " " * width,
        key_bindings=_bindings(),
        refresh_interval=_REFRESH,
        search_ignore_case=True,
        style=Style.from_dict({"bottom-toolbar": "noreverse ansibrightblack"}),
    )
    session.app.ttimeoutlen = ESCAPE_WAIT
    return session


def _completes() -> bool:
    text = get_app().current_buffer.document.text_before_cursor
    return text.startswith("/") or "@" in text


def _bindings() -> KeyBindings:
    made = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)

    @made.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @made.add("escape", "enter", filter=typing)
    @made.add("escape", "c-j", filter=typing)
    @made.add("c-j", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return made
