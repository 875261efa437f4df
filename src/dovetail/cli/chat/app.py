"""The chat application: reads lines and runs commands and turns until the user quits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from dovetail.cli.chat.ui.contract import ChatUI, Interrupted, Status
from dovetail.cli.chat.views.rendering import addressed_to_user, counted, exact
from dovetail.cli.exit_status import explain
from dovetail.cli.terminal.signals import handled_signals
from dovetail.cli.terminal.terminal import InputClosed
from dovetail.cli.traffic.live import LiveTraffic

from . import commands, turn
from .completion import ChatCompletion
from .dialogs import ApprovalDialogs
from .forms import ElicitationForms
from .input_line import TypedMessage, read_line
from .session import ChatSession
from .status_bar import status_text
from .status_lines import StatusLines
from .views import prompts
from .views.conversations import resume_conversation, save_conversation

if TYPE_CHECKING:
    from dovetail.host.host import Host

PROMPT = "you> "

logger = logging.getLogger("dovetail")


class ChatApp:
    """The chat application. It is created before the host, because it provides the callbacks of the host."""

    def __init__(
        self, ui: ChatUI, system: str | None = None, *, saving: bool = False, resumed: str | None = None
    ) -> None:
        """`saving` saves the conversation after each turn; `resumed` is the id of one to continue."""
        self._ui = ui
        self._system = system
        self._saving = saving
        self._resumed = resumed
        self._work: asyncio.Task[None] | None = None
        self._stopping = False
        self.dialogs = ApprovalDialogs(ui, self.interrupt)
        self.forms = ElicitationForms(ui, self.interrupt)
        self.status_lines = StatusLines(ui)
        self.traffic = LiveTraffic()

    async def run(self, host: Host) -> None:
        """Run until the user quits."""
        session = ChatSession(
            self._ui,
            host,
            system=self._system,
            traffic=self.traffic,
            questions=self.forms.waiting,
            saving=self._saving,
        )
        session.chat = session.new_chat() if host.models else None
        completion = ChatCompletion(session, {name: command.about for name, command in commands.CHAT_COMMANDS.items()})
        host.on_context = lambda server, scope: session.chat.context(server, scope) if session.chat is not None else ()
        self._welcome(session)
        if self._resumed is not None:
            await resume_conversation(session, self._resumed)
        starting = asyncio.ensure_future(host.ready())
        try:
            with self._signals(), self._ui.quiet():
                while not session.finished:
                    text = await self._line(completion, lambda width: status_text(session, width))
                    if text is None:
                        return
                    if text:
                        await self._run_cancellable(self._handle_line(session, text))
                        await save_conversation(session)
        finally:
            for task in (starting, *session.background):
                task.cancel()
            await asyncio.gather(starting, *session.background, return_exceptions=True)

    def interrupt(self) -> None:
        """Cancel the current command or turn."""
        if self._work is None:
            self._ui.interrupt()
        elif not self._stopping:
            self._stopping = True
            self._work.cancel()

    def _welcome(self, session: ChatSession) -> None:
        from dovetail.cli.options.model_choice import model_help

        say = self._ui.say
        servers = counted(len(session.host.servers), "server")
        model = f", model {session.chat.model}" if session.chat is not None else ""
        say(("strong", "Dovetail"), f": {servers}{model}. /help lists the commands.")
        if session.chat is None:
            say(("warn", "No model is configured; you can still use tools, prompts and resources."))
            say(("dim", model_help()))

    async def _line(self, completion: ChatCompletion, status: Status) -> str | None:
        """Read the next line; None when the user quits: Ctrl-D, or Ctrl-C twice at an empty line."""
        warned = False
        while True:
            try:
                return await self._ui.line(PROMPT, completion.suggest, status)
            except InputClosed:
                return None
            except Interrupted as pressed:
                if warned and not pressed.typed:
                    return None
                warned = not pressed.typed
                if warned:
                    self._ui.say(("dim", "  Press Ctrl-C again, or Ctrl-D, to quit."))

    async def _run_cancellable(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a command or turn that Ctrl-C cancels."""
        self._work = asyncio.ensure_future(work)
        self._stopping = False
        if self._ui.stopped_early():
            self.interrupt()
        try:
            with self._ui.stop_key(self.interrupt):
                await asyncio.wait([self._work])
        finally:
            done, self._work = self._work, None
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
            self._ui.say(("warn", "(left)"))
            return
        report = explain(problem) if isinstance(problem, Exception) else None
        if report is not None:
            # The message may come from a server: only its first line may look like one of ours.
            first, *rest = exact(addressed_to_user(report.message)).split("\n")
            self._ui.say(("bad", "\n".join([first, *(f"    {line}" for line in rest)])))
            return
        # A bug must not end the conversation.
        logger.error("The terminal application failed", exc_info=problem)
        self._ui.say(("bad", f"This is a bug in Dovetail: {type(problem).__name__}: {problem}"))

    async def _handle_line(self, session: ChatSession, text: str) -> None:
        """Run the command in a line, or send the line to the model."""
        line = read_line(text, commands.CHAT_COMMANDS)
        if isinstance(line, TypedMessage):
            if line.text:
                await turn.send_to_model(session, line.text)
        elif line.name.startswith(prompts.PREFIX):
            filled = await prompts.fetch(session, line.name, line.words)
            if filled is not None:
                await turn.send_to_model(session, filled.messages, filled.server)
        else:
            await commands.CHAT_COMMANDS[line.name].run(session, line.words)

    def _signals(self) -> contextlib.AbstractContextManager[None]:
        """Ctrl-C cancels the current command; SIGTERM and SIGHUP cancel `run`, so that the terminal is restored."""
        task = asyncio.current_task()
        assert task is not None
        return handled_signals(self.interrupt, task.cancel)
