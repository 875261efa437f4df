"""Questions of commands to the user at the terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay
from dovetail.cli.terminal.terminal import InputClosed, Terminal, echo_off, is_interactive

if TYPE_CHECKING:
    from dovetail.config.entries import Input


class TerminalPrompts:
    """Questions to the user at the terminal, if there is one; without a display nothing is asked."""

    def __init__(self, display: ProgressDisplay | None) -> None:
        self._terminal = Terminal(display) if display is not None and is_interactive() else None

    @property
    def available(self) -> bool:
        """True if there is a terminal."""
        return self._terminal is not None

    async def confirm(self, question: str, introduction: Sequence[str] = ()) -> bool:
        """Ask yes or no; Enter is yes, end of input is no."""
        terminal = self._required()
        async with terminal.question():
            for line in introduction:
                terminal.say(line)
            while True:
                try:
                    answer = (await terminal.prompt(f"{question} [y]es, [n]o: ")).lower()
                except InputClosed:
                    return False
                if answer[:1] in ("", "y", "n"):
                    return answer[:1] != "n"

    async def input_value(self, server: str, wanted: Input) -> str | None:
        """Ask for the value of an input, without echo if it is a secret; Enter skips it."""
        terminal = self._required()
        async with terminal.question():
            terminal.say(f"The server {server!r} needs {wanted.description or wanted.id}.")
            for number, option in enumerate(wanted.options, 1):
                terminal.say(f"  {number}) {option}")
            hint = f" [{wanted.default}]" if wanted.default is not None else ""
            while True:
                try:
                    with echo_off() if wanted.secret else contextlib.nullcontext():
                        answer = await terminal.prompt(f"{wanted.id}{hint}: ")
                except InputClosed:
                    return None
                if wanted.secret:
                    terminal.say()
                if not answer:
                    return wanted.default
                if not wanted.options or answer in wanted.options:
                    return answer
                if answer.isdecimal() and 1 <= int(answer) <= len(wanted.options):
                    return wanted.options[int(answer) - 1]
                terminal.say("  Choose one of these.")

    def _required(self) -> Terminal:
        if self._terminal is None:
            raise UsageError("there is no terminal to ask at")
        return self._terminal
