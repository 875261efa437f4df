"""Prompt for a single key, and key bindings for prompt_toolkit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

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


class KeyPrompt:
    """Prompt for a single key; it shows the keys only when it accepts them."""

    def __init__(self, keys: Mapping[str, str], source: Input, *, accepting: bool) -> None:
        self._keys = keys
        self._accepting = accepting
        self._last_press = time.monotonic()
        control = FormattedTextControl(self._text, focusable=True)
        self.application: Application[str] = Application(
            layout=Layout(Window(control, wrap_lines=True, dont_extend_height=True)),
            key_bindings=bindings({ANY: self._press, "c-c": interrupt, "c-d": close}),
            erase_when_done=True,
            input=source,
        )

    async def run(self) -> str:
        """Read a key."""
        waiting = asyncio.ensure_future(self._wait_for_quiet())
        try:
            return await self.application.run_async(handle_sigint=False)
        finally:
            waiting.cancel()

    def _text(self) -> StyleAndTextTuples:
        line = "  ".join(f"[{key}] {text}" for key, text in self._keys.items())
        return [("bold", line if self._accepting else "…")]

    def _press(self, event: KeyPressEvent) -> None:
        self._last_press = time.monotonic()
        key = event.data.lower()
        if self._accepting and key in self._keys:
            event.app.exit(result=key)

    async def _wait_for_quiet(self) -> None:
        while not self._accepting:
            await asyncio.sleep(max(self._last_press + QUIET - time.monotonic(), 0.01))
            self._accepting = time.monotonic() - self._last_press >= QUIET
        self.application.invalidate()
