"""What servers ask the person in the middle of a call, as forms at the terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from dovetail.cli.chat.ui.contract import Interrupted, Surface
from dovetail.cli.chat.views.rendering import exact, indented, one_line, rule
from dovetail.cli.terminal.prompt_forms import Answer, Asking

if TYPE_CHECKING:
    from dovetail.client.elicitation import Elicitation


class Forms:
    """Asks in the name of a server, by its key in the configuration."""

    def __init__(self, surface: Surface, interrupt: Callable[[], None]) -> None:
        self._surface = surface
        self._interrupt = interrupt

    async def elicit(self, server: str, question: Elicitation) -> Answer:
        """Put a server's form, or its page, to the person; the host's `on_elicit`."""
        from dovetail.host.consent.user_prompts import HostElicitation

        warnings = question.concerns if isinstance(question, HostElicitation) else ()
        self._surface.end_progress()
        try:
            return await _Dialog(self._surface, server, warnings).elicit(question)
        except Interrupted:
            self._interrupt()
            return "cancel"
        except asyncio.CancelledError:
            self._surface.notice(("dim", f"  (the question of {server} was withdrawn)"))
            raise


class _Dialog(Asking):
    """A form that looks like the other questions: whose it is stands in a line of ours, its words have a margin."""

    def __init__(self, surface: Surface, server: str, warnings: Sequence[str]) -> None:
        super().__init__(_Desk(surface), server, warnings)
        self._surface = surface
        self._key = server

    def _introduce(self, question: Elicitation) -> None:
        say = self._surface.say
        say()
        say(("warn", rule(f"{self._key} asks you", self._surface.width)))
        say(indented(question.message.strip()))
        for warning in self._warnings:
            say(("bad", f"  ! {one_line(warning)}"))


class _Desk:
    """The terminal for words of a server: none of them begins at the left edge, and none is hidden."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface

    def question(self) -> AbstractAsyncContextManager[None]:
        """The time that one question has the terminal for itself."""
        return self._surface.question()

    def say(self, text: str = "") -> None:
        """Show lines."""
        for line in exact(text).split("\n"):
            self._surface.say(line if line.startswith("  ") else f"  {line}")

    async def ask(self, prompt: str) -> str:
        """One line."""
        return await self._surface.ask(f"  {one_line(prompt)}")
