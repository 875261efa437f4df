"""The application itself: lines in, commands and turns out, until the person leaves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import signal
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any

from dovetail.cli.chat.ui.contract import Interrupted, Surface
from dovetail.cli.chat.views.rendering import counted, exact
from dovetail.cli.exit_status import explain
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.terminal import Closed

from . import commands, turn
from .completion import Completing
from .dialogs import Dialogs
from .forms import Forms
from .session import Session
from .status_lines import Happenings
from .views import prompts

if TYPE_CHECKING:
    from dovetail.host.chat.chat import Words
    from dovetail.host.host import Host

PROMPT = "you> "

logger = logging.getLogger("dovetail")


class Application:
    """Made before the host, since the host asks through it; `run` is its life."""

    def __init__(self, surface: Surface, system: str | None = None) -> None:
        self._surface = surface
        self._system = system
        self._work: asyncio.Task[None] | None = None
        self._stopping = False
        self.dialogs = Dialogs(surface, self.interrupt)
        self.forms = Forms(surface, self.interrupt)
        self.happenings = Happenings(surface)

    async def run(self, host: Host) -> None:
        """Talk until the person leaves."""
        session = Session(self._surface, host, system=self._system)
        session.chat = session.talk() if host.models else None
        completing = Completing(session, {name: command.about for name, command in commands.COMMANDS.items()})
        host.on_context = lambda server, scope: session.chat.context(server, scope) if session.chat is not None else ()
        self._welcome(session)
        starting = asyncio.ensure_future(host.ready())
        try:
            with self._signals(), self._surface.quiet():
                while not session.over:
                    text = await self._line(completing)
                    if text is None:
                        return
                    if text:
                        await self._do(self._answer(session, text))
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)

    def interrupt(self) -> None:
        """Stop what is under way; not the program."""
        if self._work is not None and not self._stopping:
            self._stopping = True
            self._work.cancel()

    def _welcome(self, session: Session) -> None:
        from dovetail.cli.options.model_choice import how_to_add

        say = self._surface.say
        servers = counted(len(session.host.servers), "server")
        answers = f", and {session.chat.model} answers" if session.chat is not None else ""
        say(("strong", "Dovetail"), f": {servers}{answers}. /help shows what you can do.")
        if session.chat is None:
            say(("warn", "There is no model to talk to; tools, prompts and resources can be used by hand."))
            say(("dim", how_to_add()))

    async def _line(self, completing: Completing) -> str | None:
        """The next line; None when the person leaves: Ctrl-D, or Ctrl-C twice at an empty line."""
        warned = False
        while True:
            try:
                return await self._surface.line(PROMPT, completing.suggest)
            except Closed:
                return None
            except Interrupted as pressed:
                if warned and not pressed.typed:
                    return None
                warned = not pressed.typed
                if warned:
                    self._surface.say(("dim", "  Once more Ctrl-C, or Ctrl-D, leaves."))

    async def _do(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that Ctrl-C stops."""
        self._work = asyncio.ensure_future(work)
        self._stopping = False
        if self._surface.stopped_early():
            self.interrupt()
        try:
            await asyncio.wait([self._work])
        finally:
            done, self._work = self._work, None
            self._surface.end_progress()
            if not done.done():
                done.cancel()
                await asyncio.wait([done])
        if done.cancelled():
            self._surface.say(("warn", "(stopped)"))
        elif (problem := done.exception()) is not None:
            self._explain(problem)

    def _explain(self, problem: BaseException) -> None:
        if isinstance(problem, (Closed, Interrupted)):
            self._surface.say(("warn", "(left)"))
            return
        complaint = explain(problem) if isinstance(problem, Exception) else None
        if complaint is not None:
            # Which may be a server's words: only its first line begins where ours do.
            first, *rest = exact(complaint.message).split("\n")
            self._surface.say(("bad", "\n".join([first, *(f"    {line}" for line in rest)])))
            return
        # A mistake of ours is no reason to take the conversation away.
        logger.error("The terminal application failed", exc_info=problem)
        self._surface.say(("bad", f"This is a mistake in Dovetail: {type(problem).__name__}: {problem}"))

    async def _answer(self, session: Session, text: str) -> None:
        """Do what a line says."""
        if not text.startswith("/"):
            await self._talk(session, text)
            return
        try:
            word, *words = shlex.split(text)
        except ValueError as problem:
            raise UsageError(f"this line cannot be taken apart: {problem}") from None
        if word.startswith(prompts.PREFIX):
            filled = await prompts.fetch(session, word, words)
            if filled is not None:
                await self._talk(session, filled.messages, filled.server)
            return
        await commands.find(word).run(session, words)

    async def _talk(self, session: Session, words: Words, server: str | None = None) -> None:
        from dovetail.cli.options.model_choice import how_to_add

        if session.chat is None:
            raise UsageError(f"there is no model to talk to. {how_to_add()}")
        await turn.say(session, session.chat, words, server)

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        """While it lasts, Ctrl-C stops what is under way, and what ends programs lets us put the terminal in order."""
        loop, life = asyncio.get_running_loop(), asyncio.current_task()
        assert life is not None
        handlers: dict[str, Callable[[], object]] = {
            "SIGINT": self.interrupt,
            "SIGTERM": life.cancel,
            "SIGHUP": life.cancel,
        }
        before: dict[signal.Signals, Any] = {}
        for name, handler in handlers.items():
            number = getattr(signal, name, None)  # Windows has not all of them
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
