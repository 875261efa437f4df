"""The chat application: reads lines and runs commands and turns until the user quits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import signal
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any

from dovetail.cli.chat.ui.contract import ChatUI, Interrupted
from dovetail.cli.chat.views.rendering import counted, exact
from dovetail.cli.exit_status import explain
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.terminal import InputClosed

from . import commands, turn
from .completion import ChatCompletion
from .dialogs import ApprovalDialogs
from .forms import ElicitationForms
from .session import ChatSession
from .status_lines import StatusLines
from .views import prompts

if TYPE_CHECKING:
    from dovetail.host.chat.chat import Words
    from dovetail.host.host import Host

PROMPT = "you> "

logger = logging.getLogger("dovetail")


class ChatApp:
    """The chat application. It is created before the host, because it provides the callbacks of the host."""

    def __init__(self, ui: ChatUI, system: str | None = None) -> None:
        self._ui = ui
        self._system = system
        self._work: asyncio.Task[None] | None = None
        self._stopping = False
        self.dialogs = ApprovalDialogs(ui, self.interrupt)
        self.forms = ElicitationForms(ui, self.interrupt)
        self.status_lines = StatusLines(ui)

    async def run(self, host: Host) -> None:
        """Run until the user quits."""
        session = ChatSession(self._ui, host, system=self._system)
        session.chat = session.new_chat() if host.models else None
        completion = ChatCompletion(session, {name: command.about for name, command in commands.CHAT_COMMANDS.items()})
        host.on_context = lambda server, scope: session.chat.context(server, scope) if session.chat is not None else ()
        self._welcome(session)
        starting = asyncio.ensure_future(host.ready())
        try:
            with self._signals(), self._ui.quiet():
                while not session.finished:
                    text = await self._line(completion)
                    if text is None:
                        return
                    if text:
                        await self._run_cancellable(self._handle_line(session, text))
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)

    def interrupt(self) -> None:
        """Cancel the current command or turn."""
        if self._work is not None and not self._stopping:
            self._stopping = True
            self._work.cancel()

    def _welcome(self, session: ChatSession) -> None:
        from dovetail.cli.options.model_choice import model_help

        say = self._ui.say
        servers = counted(len(session.host.servers), "server")
        answers = f", and {session.chat.model} answers" if session.chat is not None else ""
        say(("strong", "Dovetail"), f": {servers}{answers}. /help lists the commands.")
        if session.chat is None:
            say(("warn", "No model is configured; you can still use tools, prompts and resources."))
            say(("dim", model_help()))

    async def _line(self, completion: ChatCompletion) -> str | None:
        """Read the next line; None when the user quits: Ctrl-D, or Ctrl-C twice at an empty line."""
        warned = False
        while True:
            try:
                return await self._ui.line(PROMPT, completion.suggest)
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
            first, *rest = exact(report.message).split("\n")
            self._ui.say(("bad", "\n".join([first, *(f"    {line}" for line in rest)])))
            return
        # A bug must not end the conversation.
        logger.error("The terminal application failed", exc_info=problem)
        self._ui.say(("bad", f"This is a bug in Dovetail: {type(problem).__name__}: {problem}"))

    async def _handle_line(self, session: ChatSession, text: str) -> None:
        """Run the command in a line, or send the line to the model."""
        if not text.startswith("/"):
            await self._send_to_model(session, text)
            return
        try:
            word, *words = shlex.split(text)
        except ValueError as problem:
            raise UsageError(f"cannot parse this line: {problem}") from None
        if word.startswith(prompts.PREFIX):
            filled = await prompts.fetch(session, word, words)
            if filled is not None:
                await self._send_to_model(session, filled.messages, filled.server)
            return
        await commands.find(word).run(session, words)

    async def _send_to_model(self, session: ChatSession, words: Words, server: str | None = None) -> None:
        from dovetail.cli.options.model_choice import model_help

        if session.chat is None:
            raise UsageError(f"no model is configured. {model_help()}")
        await turn.run_turn(session, session.chat, words, server)

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        """Ctrl-C cancels the current command; SIGTERM and SIGHUP cancel `run`, so that the terminal is restored."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        handlers: dict[str, Callable[[], object]] = {
            "SIGINT": self.interrupt,
            "SIGTERM": task.cancel,
            "SIGHUP": task.cancel,
        }
        before: dict[signal.Signals, Any] = {}
        for name, handler in handlers.items():
            number = getattr(signal, name, None)  # Windows does not have all of them
            if number is not None:
                before[number] = signal.signal(number, _on_loop(loop, handler))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _on_loop(loop: asyncio.AbstractEventLoop, handler: Callable[[], object]) -> Callable[[int, object], None]:
    def handle(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(handler)

    return handle
