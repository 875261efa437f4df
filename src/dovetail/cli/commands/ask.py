"""`dovetail ask QUESTION`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from dovetail.cli import output
from dovetail.cli.exit_status import OK, UNAUTHORIZED, Failed
from dovetail.cli.options.client_options import add_output
from dovetail.cli.options.host_options import add_host_options, make_host, unmatched
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import Screen
from dovetail.cli.terminal.terminal import someone_there

if TYPE_CHECKING:
    from dovetail.host.chat.chat import Chat
    from dovetail.host.chat.events import ToolFinished, ToolStarted
    from dovetail.host.events import HostEvent
    from dovetail.host.host import Host

_CUT = {
    "length": "the model used up its tokens",
    "rounds": "too many rounds",
    "calls": "too many calls",
    "output": "it was too long",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("question", metavar="QUESTION", help="what to ask; - reads it from stdin")
    add_host_options(parser)
    parser.add_argument("--attach", action="append", default=[], metavar="SERVER=URI", help="send this resource along")
    parser.add_argument(
        "--interactive", action="store_true", help="ask the person at the terminal where the rules say so"
    )
    add_output(parser)
    parser.epilog = "The answer goes to stdout, all else to stderr. What the rules would ask about is refused."


def run(options: argparse.Namespace) -> int:
    """Ask, and print the answer."""
    if options.interactive and not someone_there():
        raise UsageError("--interactive needs a person at a terminal")
    if options.question == "-":
        options.question = sys.stdin.read()
    if not options.question.strip():
        raise UsageError("there is nothing to ask")
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by whoever started us
        raise UsageError("stdout is closed, so there is nowhere to put the answer")
    return asyncio.run(_ask(options))


async def _ask(options: argparse.Namespace) -> int:
    from dovetail.cli.options.model_choice import how_to_add

    attached = [(server, uri) for server, uri in map(_place, options.attach)]
    with Screen(sys.stderr) as screen:
        telling = _Telling(screen)
        host = make_host(options, on_event=telling.tell, **_person(options, screen))
        if not host.models:
            raise UsageError(f"there is no model to ask. {how_to_add()}")
        async with host:
            await _servers(host, screen)
            telling.started = True
            for line in unmatched(options, host, await host.tools()):
                screen.line(line)
            chat = host.chat(system=options.system)
            answer = await _answer(chat, options.question, attached, screen)
    if options.format == "json":
        output.show_json(answer)
    else:
        output.show_text(answer["text"])
    return OK


async def _servers(host: Host, screen: Screen) -> None:
    """Start them, and say which are not there: a script should know that its answer was given without them."""
    await host.ready()
    from dovetail.host.consent.consent import NOBODY

    for status in host.servers.values():
        error = status.error or status.state
        if status.state in ("ready", "disabled"):
            continue
        if error.startswith(NOBODY):
            error = f"nobody approved its start; --launch {status.key} starts it unasked"
        screen.line(f"{status.key} is not there: {error}")


async def _answer(chat: Chat, question: str, attached: list[tuple[str, str]], screen: Screen) -> dict[str, Any]:
    from dovetail.host.chat.events import Attached, ToolFinished, ToolProgress, ToolStarted, TurnEnded
    from dovetail.host.models.contract import TextDelta

    pieces: list[str] = []
    calls: dict[str, dict[str, Any]] = {}
    reason = "done"
    async with _model_errors(), aclosing(chat.say(question, attach=attached)) as events:
        async for event in events:
            match event:
                case TextDelta():
                    pieces.append(event.text)
                case ToolStarted():
                    # What was said before a tool is called is no part of the answer.
                    _aside(pieces, screen)
                    calls[event.id] = {"server": event.server, "tool": event.tool, "arguments": event.arguments}
                    screen.line(_of(event))
                case ToolProgress():
                    screen.progress(event.progress, event.total, f"{event.tool}: {event.message or ''}", event.id)
                case ToolFinished():
                    screen.end_progress(event.id)
                    calls[event.id] |= {"refused": event.refused, "isError": bool(event.result.is_error)}
                    if event.refused:
                        screen.line(f"{_of(event)} was refused: {_why(event)}")
                case Attached():
                    if event.problem:
                        raise Failed("not_found", f"{event.uri} of {event.server}: {event.problem}")
                case TurnEnded():
                    reason = event.reason
    text = "".join(pieces)
    if not text.strip():
        raise Failed("invalid_answer", f"The model {chat.model} gave no answer: {_CUT.get(reason, 'it said nothing')}.")
    if reason in _CUT:
        screen.line(f"The answer is not whole: {_CUT[reason]}.")
    return {"text": text, "model": chat.model, "calls": list(calls.values()), "reason": reason}


@contextlib.asynccontextmanager
async def _model_errors() -> AsyncGenerator[None]:
    """What a model's endpoint refuses, with the exit code that scripts expect."""
    from dovetail.host.models.errors import ModelFailed

    try:
        yield
    except ModelFailed as problem:
        if problem.status in (401, 403):
            raise Failed("unauthorized", str(problem), UNAUTHORIZED) from None
        raise Failed("model_failed", str(problem)) from None


def _of(event: ToolStarted | ToolFinished) -> str:
    """Whose tool it is; those for finding tools are the host's own."""
    return f"{event.server}: {event.tool}" if event.server else event.tool


def _why(event: ToolFinished) -> str:
    """Why a call was refused; what follows the first line is for models."""
    from dovetail.host.consent.consent import NOBODY

    why = event.result.text.partition("\n")[0]
    if why.startswith(NOBODY):
        return f"nobody is asked here; --allow {event.server}__{event.tool} lets it be called"
    return why


def _place(word: str) -> tuple[str, str]:
    server, sign, uri = word.partition("=")
    if not sign or not server or not uri:
        raise UsageError(f"{word!r} is not of the form SERVER=URI")
    return server, uri


def _aside(pieces: list[str], screen: Screen) -> None:
    if said := "".join(pieces).strip():
        screen.line(said)
    pieces.clear()


def _person(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Who is asked: nobody, unless a person is there who wants to be."""
    if not options.interactive:
        return {}
    from dovetail.cli.chat.dialogs import Dialogs
    from dovetail.cli.chat.forms import Forms
    from dovetail.cli.chat.secrets import input_secrets
    from dovetail.cli.chat.ui.line_ui import Lines
    from dovetail.cli.terminal.terminal import Terminal

    surface = Lines(Terminal(screen), sys.stderr, screen)
    asking = asyncio.current_task()

    def stop() -> None:
        if asking is not None:
            asking.cancel()

    dialogs, forms = Dialogs(surface, stop), Forms(surface, stop)
    return {"on_approve": dialogs.approve, "on_elicit": forms.elicit, "secrets": input_secrets(surface)}


class _Telling:
    """What a script's reader should know of the servers."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self.started = False
        """Until then all that does not start is said in one go."""

    def tell(self, event: HostEvent) -> None:
        """Say what is held back, and who was lost."""
        from dovetail.host.events import ServerStatus

        if event.kind == "definition":
            what = f"{event.detail.kind} {event.detail.name}".strip()
            self._screen.line(f"{event.server}: {what} is held back; see `dovetail lock`")
        elif self.started and isinstance(event.detail, ServerStatus) and event.detail.state == "waiting":
            self._screen.line(f"{event.server}: {event.detail.error}")
