"""`dovetail dev`: reads commands, shows traffic and stderr, and reloads the server when its code changes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.cli.chat.forms import ElicitationForms
from dovetail.cli.chat.ui.contract import ChatUI, Interrupted
from dovetail.cli.chat.views.rendering import counted, exact, one_line
from dovetail.cli.exit_status import explain
from dovetail.cli.hot_reload.source_changes import SourceWatch
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.prompt_forms import ElicitationPrompts
from dovetail.cli.terminal.signals import handled_signals
from dovetail.cli.terminal.terminal import InputClosed
from dovetail.cli.traffic.views import exchange_line, exchange_tone
from dovetail.protocol.errors import DovetailError

from . import commands
from .commands import DevSession
from .server import DevServer

if TYPE_CHECKING:
    from dovetail.cli.traffic.exchange import TrafficExchange
    from dovetail.client.elicitation import Elicitation
    from dovetail.types.client_features import CreateMessageParams

PROMPT = "dev> "

_OWN = frozenset({"subscriptions/listen", "notifications/subscriptions/acknowledged", "logging/setLevel"})
"""Methods of this program itself, which say nothing about the server."""
_LEVELS = {"error": "bad", "critical": "bad", "alert": "bad", "emergency": "bad", "warning": "warn"}


class DevApp:
    """The application; it listens to the server that it runs."""

    def __init__(
        self,
        ui: ChatUI,
        file: str,
        arguments: Sequence[str],
        folders: Sequence[str],
        *,
        revision: str | None,
        timeout: float | None,
    ) -> None:
        self._ui = ui
        self._server = DevServer(file, arguments, self, revision=revision, timeout=timeout)
        self._folders = list(folders) or [os.path.dirname(self._server.path)]
        self._session = DevSession(ui, self._server)
        self._forms = ElicitationForms(ui, self._interrupt)
        self._work: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._said: str | None = None
        """The problem that was shown last, so that it is shown once."""

    async def run(self) -> None:
        """Run until the user quits; without any input, until a signal arrives."""
        watch = await asyncio.to_thread(SourceWatch, self._folders)
        reloading = asyncio.ensure_future(self._reload_on_change(watch))
        try:
            with self._signals(), self._ui.quiet():
                await self._run_cancellable(self._start())
                self._welcome()
                await self._read_lines()
        finally:
            reloading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reloading
            await self._server.close()

    def exchanged(self, exchange: TrafficExchange) -> None:
        """Show an exchange on one line."""
        if self._session.shows_traffic and exchange.method not in _OWN:
            self._ui.notice((exchange_tone(exchange), exchange_line(exchange, self._ui.width - 1)))

    def wrote(self, line: str) -> None:
        """Show a line of stderr."""
        self._ui.notice(("dim", "stderr | "), exact(line))

    def logged(self, level: str, data: Any, logger: str | None) -> None:
        """Show a log message."""
        text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
        tone: Any = _LEVELS.get(level, "dim")
        self._ui.notice((tone, f"log {one_line(level)} | "), one_line(f"{logger}: {text}" if logger else text))

    def changed(self, difference: str) -> None:
        """Show the change of the interface."""
        self._ui.notice(
            ("good", f"~ version {self._server.version}: "), "" if difference else "the interface is unchanged"
        )
        for line in difference.splitlines():
            self._ui.notice(("warn" if line.lstrip().startswith("!") else "good", f"  {exact(line)}"))

    async def elicit(self, question: Elicitation) -> Any:
        """Ask the user what the server asks."""
        return await self._forms.elicit(self._name, question)

    async def sample(self, request: CreateMessageParams) -> str:
        """Let the user answer in place of a model."""
        return await ElicitationPrompts(self._ui, self._name).sample(request)

    @property
    def _name(self) -> str:
        return os.path.basename(self._server.path)

    def _welcome(self) -> None:
        if self._server.running:
            offered = self._server.interface
            counts = [
                counted(len(offered.get(kind, {})), noun)
                for kind, noun in (("tools", "tool"), ("resources", "resource"), ("prompts", "prompt"))
                if offered.get(kind)
            ]
            client = self._server.client
            name = client.server.name if client.server is not None else self._name
            self._ui.say(
                ("strong", one_line(name)), f" on {client.revision}: {', '.join(counts) or 'nothing offered'}."
            )
        self._ui.say(("dim", "Save the file to reload it. Enter lists the tools, /help the commands."))

    async def _start(self) -> None:
        """Start the current code; a problem is shown once, in a few lines."""
        try:
            await self._server.start()
            self._said = None
        except DovetailError as problem:
            self._complain(str(problem))

    def _complain(self, text: str) -> None:
        if text == self._said:
            return
        self._said = text
        first, *rest = exact(text).split("\n")
        self._ui.notice(("bad", f"! {first}"))
        for line in rest:
            self._ui.notice(("bad", f"    {line}"))
        state = "The version before goes on" if self._server.running else "Waiting"
        self._ui.notice(("dim", f"  {state}; save the file to try again."))

    async def _reload_on_change(self, watch: SourceWatch) -> None:
        async for change in watch.changes():
            if change.problem is not None:
                self._complain(change.problem)
                continue
            self._ui.notice(("good", f"~ {', '.join(map(one_line, change.names))} changed"))
            # A call of the user finishes with the version that it began with.
            await self._idle.wait()
            await self._start()

    async def _read_lines(self) -> None:
        """Run commands until the user quits: /quit, Ctrl-D, or Ctrl-C twice at an empty line."""
        warned = False
        while not self._session.finished:
            try:
                text = await self._ui.line(PROMPT, lambda typed: commands.suggest(self._session, typed))
            except InputClosed:
                return
            except Interrupted as pressed:
                if warned and not pressed.typed:
                    return
                warned = not pressed.typed
                if warned:
                    self._ui.say(("dim", "  Press Ctrl-C again, or Ctrl-D, to quit."))
                continue
            warned = False
            await self._run_cancellable(self._handle(text))

    async def _handle(self, text: str) -> None:
        try:
            words = shlex.split(text)
        except ValueError as problem:
            raise UsageError(f"cannot parse this line: {problem}") from None
        await commands.run_line(self._session, words)

    async def _run_cancellable(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a command that Ctrl-C cancels; its problem is shown."""
        done = self._work = asyncio.ensure_future(work)
        self._idle.clear()
        try:
            await asyncio.wait([done])
        finally:
            self._work = None
            self._idle.set()
            self._ui.end_progress()
            if not done.done():
                done.cancel()
                await asyncio.wait([done])
        if done.cancelled():
            self._ui.say(("warn", "(stopped)"))
        elif (problem := done.exception()) is not None:
            self._explain(problem)

    def _explain(self, problem: BaseException) -> None:
        if isinstance(problem, (InputClosed, Interrupted)):
            return
        reported = explain(problem) if isinstance(problem, Exception) else None
        if reported is None:
            raise problem
        self._ui.say(("bad", "\n    ".join(exact(reported.message).split("\n"))))

    def _interrupt(self) -> None:
        if self._work is not None:
            self._work.cancel()

    def _signals(self) -> contextlib.AbstractContextManager[None]:
        """Ctrl-C cancels the current command, or ends a program that reads no input; SIGTERM and SIGHUP end it."""
        task = asyncio.current_task()
        assert task is not None

        def on_interrupt() -> None:
            if self._work is not None:
                self._interrupt()
            else:
                task.cancel()

        return handled_signals(on_interrupt, task.cancel)
