"""Elicitation forms of servers, and inputs of the configuration, in the chat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from dovetail.cli.chat.ui.contract import ChatUI, Interrupted
from dovetail.cli.chat.views.rendering import exact, indented, one_line, quoted, rule
from dovetail.cli.terminal.prompt_forms import ElicitationAnswer, ElicitationPrompts
from dovetail.cli.terminal.terminal import InputClosed

from .waiting_questions import WaitingQuestions

if TYPE_CHECKING:
    from dovetail.client.elicitation import Elicitation
    from dovetail.client.targets.secrets import Secrets
    from dovetail.config.entries import Input
    from dovetail.host.tasks.host_task import HostTask


class ElicitationForms:
    """Shows elicitation requests with the key of the server; `elicit` is the host's `on_elicit`."""

    def __init__(self, ui: ChatUI, interrupt: Callable[[], None]) -> None:
        self._ui = ui
        self._interrupt = interrupt
        self.waiting = WaitingQuestions()

    async def elicit(self, server: str, question: Elicitation) -> ElicitationAnswer:
        """Ask the user; the question of a task in the background waits until they want to answer it."""
        from dovetail.host.consent.user_prompts import HostElicitation

        task: HostTask | None = question.task if isinstance(question, HostElicitation) else None
        warnings = question.concerns if isinstance(question, HostElicitation) else ()
        try:
            while True:
                if task is not None:
                    name = f"task {task.number} ({quoted(server)}: {one_line(task.tool)})"
                    self._ui.notice(("warn", f"? {name} asks you something; /tasks answers it"))
                    await self.waiting.turn(task)
                self._ui.end_progress()
                try:
                    return await _ServerForm(self._ui, server, warnings).elicit(question)
                except Interrupted:
                    self._interrupt()
                    if task is None:
                        return "cancel"
        except asyncio.CancelledError:
            self._ui.notice(("dim", f"  (the question of {quoted(server)} was withdrawn)"))
            raise


class _ServerForm(ElicitationPrompts):
    """A form in the style of the other dialogs: the server is named in a line of ours, its text has a margin."""

    def __init__(self, ui: ChatUI, server: str, warnings: Sequence[str]) -> None:
        super().__init__(_IndentedPromptIO(ui), server, warnings)
        self._ui = ui
        self._key = server

    async def _choose(self, question: str, choices: Mapping[str, str], default: str | None = None) -> str:
        """A single key, as in approval questions."""
        if question:
            self._ui.say(f"  {question}")
        return await self._ui.key(choices, default)

    def _introduce(self, question: Elicitation) -> None:
        say = self._ui.say
        say()
        say(("warn", rule(f"{quoted(self._key)} asks for input", self._ui.width)))
        say(indented(question.message.strip()))
        for warning in self._warnings:
            say(("bad", f"  ! {one_line(warning)}"))


class _IndentedPromptIO:
    """Prompts with text of a server: every line is indented, invisible characters are shown."""

    def __init__(self, ui: ChatUI) -> None:
        self._ui = ui

    def question(self) -> AbstractAsyncContextManager[None]:
        """Exclusive use of the terminal for one question."""
        return self._ui.question()

    def say(self, text: str = "") -> None:
        """Print lines."""
        for line in exact(text).split("\n"):
            self._ui.say(line if line.startswith("  ") else f"  {line}")

    async def prompt(self, prompt: str) -> str:
        """Read one line."""
        return await self._ui.prompt(f"  {one_line(prompt)}")


def input_secrets(ui: ChatUI) -> Secrets:
    """Secrets that ask the user for inputs without a value in the keyring."""
    from dovetail.client.targets.secrets import Secrets

    async def ask(server: str, wanted: Input) -> str | None:
        async with ui.question():
            ui.say()
            ui.say(("warn", rule(f"{quoted(server)} needs {quoted(wanted.description or wanted.id)}", ui.width)))
            ui.say(("dim", f"  from {one_line(str(wanted.origin))}"))
            if wanted.options:
                ui.say(f"  one of {', '.join(map(one_line, wanted.options))}")
            prompt = f"  {one_line(wanted.id)}: "
            try:
                typed = await (ui.prompt_secret(prompt) if wanted.secret else ui.prompt(prompt))
            except (InputClosed, Interrupted):
                return None
        return typed or wanted.default

    return Secrets(on_input=ask)
