"""A line of keys, one of which is to be pressed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

from .key_bindings import ANY, bindings, close, interrupt

QUIET = 0.4
"""Seconds without a key that must pass before a question that came in the middle of typing listens to any."""


class KeyPrompt:
    """Shows the keys only when it listens to them, so that nobody presses one in vain."""

    def __init__(self, keys: Mapping[str, str], source: Input, *, listening: bool) -> None:
        self._keys = keys
        self._listening = listening
        self._pressed = time.monotonic()
        control = FormattedTextControl(self._text, focusable=True)
        self.application: Application[str] = Application(
            layout=Layout(Window(control, wrap_lines=True, dont_extend_height=True)),
            key_bindings=bindings({ANY: self._press, "c-c": interrupt, "c-d": close}),
            erase_when_done=True,
            input=source,
        )

    async def run(self) -> str:
        """The key that is pressed."""
        waiting = asyncio.ensure_future(self._wait_for_quiet())
        try:
            return await self.application.run_async(handle_sigint=False)
        finally:
            waiting.cancel()

    def _text(self) -> StyleAndTextTuples:
        line = "  ".join(f"[{key}] {text}" for key, text in self._keys.items())
        return [("bold", line if self._listening else "…")]

    def _press(self, event: KeyPressEvent) -> None:
        self._pressed = time.monotonic()
        key = event.data.lower()
        if self._listening and key in self._keys:
            event.app.exit(result=key)

    async def _wait_for_quiet(self) -> None:
        while not self._listening:
            await asyncio.sleep(max(self._pressed + QUIET - time.monotonic(), 0.01))
            self._listening = time.monotonic() - self._pressed >= QUIET
        self.application.invalidate()
