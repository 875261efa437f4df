"""`dovetail ask QUESTION`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from . import output
from .connecting import add_output
from .hosting import add_host_options, make_host
from .outcome import OK, Failed
from .screen import Screen
from .terminal import someone_there
from .verbs import UsageError

if TYPE_CHECKING:
    from dovetail.host.chat import Chat
    from dovetail.host.events import HostEvent
    from dovetail.host.host import Host

_CUT = {"length": "the model used up its tokens", "rounds": "too many rounds", "calls": "too many calls"}


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
    return asyncio.run(_ask(options))


async def _ask(options: argparse.Namespace) -> int:
    from .model_choice import how_to_add
    from .values import read_pairs

    attached = list(read_pairs(options.attach, "SERVER=URI").items())
    with Screen(sys.stderr) as screen:
        host = make_host(options, on_event=_telling(screen), **_person(options, screen))
        if not host.models:
            raise UsageError(f"there is no model to ask. {how_to_add()}")
        async with host:
            await _servers(host, screen)
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
    for status in host.servers.values():
        if status.state not in ("ready", "disabled"):
            screen.line(f"{status.key} is not there: {status.error or status.state}")


async def _answer(chat: Chat, question: str, attached: list[tuple[str, str]], screen: Screen) -> dict[str, Any]:
    from dovetail.host.chat_events import Attached, ToolFinished, ToolProgress, ToolStarted, TurnEnded
    from dovetail.host.models.contract import TextDelta

    pieces: list[str] = []
    calls: dict[str, dict[str, Any]] = {}
    reason = "done"
    async with aclosing(chat.say(question, attach=attached)) as events:
        async for event in events:
            match event:
                case TextDelta():
                    pieces.append(event.text)
                case ToolStarted():
                    # What was said before a tool is called is no part of the answer.
                    _aside(pieces, screen)
                    calls[event.id] = {"server": event.server, "tool": event.tool, "arguments": event.arguments}
                    screen.line(f"{event.server}: {event.tool}")
                case ToolProgress():
                    screen.progress(event.progress, event.total, f"{event.tool}: {event.message or ''}")
                case ToolFinished():
                    screen.end_progress()
                    calls[event.id] |= {"refused": event.refused, "isError": bool(event.result.is_error)}
                    if event.refused:
                        screen.line(f"{event.server}: {event.tool} was refused: {event.result.text}")
                case Attached():
                    if event.problem:
                        raise Failed("not_found", f"{event.uri} of {event.server}: {event.problem}")
                case TurnEnded():
                    reason = event.reason
    if reason in _CUT:
        screen.line(f"The answer is not whole: {_CUT[reason]}.")
    return {"text": "".join(pieces), "model": chat.model, "calls": list(calls.values()), "reason": reason}


def _aside(pieces: list[str], screen: Screen) -> None:
    if said := "".join(pieces).strip():
        screen.line(said)
    pieces.clear()


def _person(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Who is asked: nobody, unless a person is there who wants to be."""
    if not options.interactive:
        return {}
    from .chatting.dialogs import Dialogs
    from .chatting.forms import Forms
    from .chatting.lines import Lines
    from .chatting.secrets import input_secrets
    from .terminal import Terminal

    surface = Lines(Terminal(screen), sys.stderr, screen)
    asking = asyncio.current_task()

    def stop() -> None:
        if asking is not None:
            asking.cancel()

    dialogs, forms = Dialogs(surface, stop), Forms(surface, stop)
    return {"on_approve": dialogs.approve, "on_elicit": forms.elicit, "secrets": input_secrets(surface)}


def _telling(screen: Screen) -> Any:
    from dovetail.host.events import ServerStatus

    def tell(event: HostEvent) -> None:
        if event.kind == "definition":
            screen.line(f"{event.server}: {event.detail.kind} {event.detail.name} is held back; see `dovetail lock`")
        elif isinstance(event.detail, ServerStatus) and event.detail.state == "waiting":
            screen.line(f"{event.server}: {event.detail.error}")

    return tell
