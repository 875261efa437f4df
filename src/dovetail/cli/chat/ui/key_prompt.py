"""Prompt for a single key, and key bindings for prompt_toolkit."""

from __future__ import annotations

import asyncio
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

from dovetail.cli.output import width_of
from dovetail.cli.terminal.terminal import InputClosed

from .contract import Interrupted

Press = Callable[[KeyPressEvent], None]

ANY = Keys.Any


def bindings(presses: Mapping[Any, Press]) -> KeyBindings:
    """Create key bindings from a table."""
    made = KeyBindings()
    for key, press in presses.items():
        made.add(key)(press)
    return made


def leave(event: KeyPressEvent) -> None:
    """Exit without a choice."""
    event.app.exit(result=None)


def close(event: KeyPressEvent) -> None:
    """Ctrl-D."""
    event.app.exit(exception=InputClosed())


def interrupt(event: KeyPressEvent) -> None:
    """Ctrl-C."""
    event.app.exit(exception=Interrupted())


QUIET = 0.4
"""Seconds without a key before a question that interrupted typing accepts any."""

WORD_QUIET = 1.0
"""The same after a key that is no answer: it may begin a word, whose further letters are no answers either."""

ALONE = 0.15
"""Seconds without another key after which a key counts; the first letter of a word is followed by others."""


ESCAPE_WAIT = 0.05
"""Seconds after which Esc counts as a key of its own and not as the begin of an arrow or of Alt."""


def pack(items: Sequence[str], width: int) -> list[list[int]]:
    """Distribute items over lines of a width, with two blanks between them; each line has their numbers."""
    lines: list[list[int]] = [[]]
    used = 0
    for number, item in enumerate(items):
        if lines[-1] and used + 2 + width_of(item) > width:
            lines.append([])
            used = 0
        used += width_of(item) + (2 if lines[-1] else 0)
        lines[-1].append(number)
    return lines


class KeyPrompt:
    """Prompt for a single key, or a choice with arrows and Enter; it shows the keys only when it accepts them.

    Nothing is selected at first, unless there is a default: an Enter that was meant for something else chooses nothing.
    A word that is typed answers nothing: a key counts if it comes alone, or with Enter after it.
    """

    def __init__(self, keys: Mapping[str, str], source: Input, *, accepting: bool, default: str | None = None) -> None:
        self._keys = keys
        self._accepting = accepting
        self._selected = None if default is None else list(keys).index(default)
        self._hint = ""
        self._quiet = QUIET
        self._waiting: asyncio.Task[None] | None = None
        self._pressed: str | None = None
        """A known key after which another one may still follow."""
        self._counts: asyncio.TimerHandle | None = None
        self._last_press = time.monotonic()
        control = FormattedTextControl(self._text, focusable=True, show_cursor=False)
        self.application: Application[str] = Application(
            layout=Layout(Window(control, wrap_lines=True, dont_extend_height=True)),
            key_bindings=bindings(
                {
                    ANY: self._press,
                    **dict.fromkeys(("left", "up", "s-tab"), lambda _: self._move(-1)),
                    **dict.fromkeys(("right", "down", "tab"), lambda _: self._move(1)),
                    "enter": self._enter,
                    "escape": self._escape,
                    "c-c": interrupt,
                    "c-d": close,
                }
            ),
            erase_when_done=True,
            input=source,
        )
        self.application.ttimeoutlen = ESCAPE_WAIT

    async def run(self) -> str:
        """Read a key."""
        self._waiting = asyncio.ensure_future(self._wait_for_quiet())
        try:
            return await self.application.run_async(handle_sigint=False)
        finally:
            self._forget()
            self._waiting.cancel()

    def _text(self) -> StyleAndTextTuples:
        width = self.application.output.get_size().columns
        shown: StyleAndTextTuples = self._key_lines(width) if self._accepting else [("bold", "…")]
        if self._hint:
            shown.append(("ansibrightblack", "\n" + "\n".join(textwrap.wrap(self._hint, width - 1))))
        return shown

    def _key_lines(self, width: int) -> StyleAndTextTuples:
        items = [f"[{key}] {text}" for key, text in self._keys.items()]
        shown: StyleAndTextTuples = []
        for line in pack(items, width - 1):
            for number in line:
                shown.append(("reverse bold" if number == self._selected else "bold", items[number]))
                shown.append(("", "  " if number != line[-1] else "\n"))
        shown.pop()
        return shown

    def _press(self, event: KeyPressEvent) -> None:
        self._last_press = time.monotonic()
        if not self._accepting:
            return
        key = event.data.lower()
        if self._forget() is not None:
            self._block("More than one key was pressed")
        elif key in self._keys:
            self._pressed = key
            self._counts = asyncio.get_running_loop().call_later(ALONE, self._accept)
        else:
            named = repr(event.data) if event.data.isprintable() else "That"
            self._block(f"{named} is none of the keys")

    def _accept(self) -> None:
        """Choose the key that came alone, unless a question that goes first, or Ctrl-C, has ended the prompt."""
        if self._pressed is not None and not self.application.is_done:
            self.application.exit(result=self._pressed)

    def _forget(self) -> str | None:
        """Take back the key that was pressed and does not count yet."""
        key, self._pressed = self._pressed, None
        if self._counts is not None:
            self._counts.cancel()
        return key

    def _block(self, problem: str) -> None:
        """Accept nothing until no key was pressed for a while."""
        self._hint = f"{problem}: press {', '.join(self._keys)}, or choose with the arrows and Enter."
        self._accepting, self._quiet = False, WORD_QUIET
        self._waiting = asyncio.ensure_future(self._wait_for_quiet())

    def _move(self, by: int) -> None:
        self._last_press = time.monotonic()
        self._forget()
        if self._accepting:
            last = len(self._keys) - 1
            at = self._selected
            self._selected = (0 if by > 0 else last) if at is None else min(max(at + by, 0), last)

    def _enter(self, event: KeyPressEvent) -> None:
        self._last_press = time.monotonic()
        if (pressed := self._forget()) is not None:
            event.app.exit(result=pressed)
        elif self._accepting and self._selected is not None:
            event.app.exit(result=list(self._keys)[self._selected])
        elif self._accepting:
            self._hint = f"Press {', '.join(self._keys)}, or choose with the arrows first."

    def _escape(self, event: KeyPressEvent) -> None:
        self._last_press = time.monotonic()
        self._forget()
        if self._accepting:
            interrupt(event)

    async def _wait_for_quiet(self) -> None:
        while not self._accepting:
            await asyncio.sleep(max(self._last_press + self._quiet - time.monotonic(), 0.01))
            self._accepting = time.monotonic() - self._last_press >= self._quiet
        self.application.invalidate()
