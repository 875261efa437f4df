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
from dovetail.cli.exit_status import OK, UNAUTHORIZED, CommandFailed
from dovetail.cli.options.client_options import add_format_option, add_output_option
from dovetail.cli.options.host_options import add_host_options, make_host, unmatched_patterns
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay
from dovetail.cli.terminal.terminal import is_interactive

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


def configure_ask(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("question", metavar="QUESTION", help="the question; - reads it from stdin")
    parser.add_argument(
        "--server",
        dest="targets",
        action="append",
        default=[],
        metavar="TARGET",
        help="a server to use instead of the configuration: a Python file, a URL, a command, or a configured name",
    )
    add_host_options(parser)
    parser.add_argument("--attach", action="append", default=[], metavar="SERVER=URI", help="attach this resource")
    parser.add_argument("--interactive", action="store_true", help="ask you at the terminal where the policy says so")
    add_format_option(parser)
    add_output_option(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="write nothing to stderr but errors")
    parser.epilog = (
        "The answer goes to stdout, everything else to stderr. What needs approval is refused without --interactive."
    )


def run_ask(options: argparse.Namespace) -> int:
    """Ask the model and print the answer."""
    if options.interactive and not is_interactive():
        raise UsageError("--interactive needs a terminal")
    if options.question == "-":
        options.question = sys.stdin.read()
    if not options.question.strip():
        raise UsageError("the question is empty")
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by the parent process
        raise UsageError("stdout is closed")
    return asyncio.run(_ask(options))


async def _ask(options: argparse.Namespace) -> int:
    from dovetail.cli.options.model_choice import model_help

    attached = [(server, uri) for server, uri in map(_attachment, options.attach)]
    with ProgressDisplay(sys.stderr, quiet=options.quiet) as display:
        messages = _ServerMessages(display)
        host = make_host(options, on_event=messages.on_event, **_user_callbacks(options, display))
        if not host.models:
            raise UsageError(f"there is no model to ask. {model_help()}")
        async with host:
            async with display.activity("Starting the servers"):
                await _servers(host, display)
            messages.started = True
            for line in unmatched_patterns(options, host, await host.tools()):
                display.note(line)
            chat = host.chat(system=options.system)
            async with display.activity(f"Waiting for {chat.model}"):
                answer = await _answer(chat, options.question, attached, display)
    if options.format == "json":
        output.show_json(answer)
    else:
        output.show_text(answer["text"])
    return OK


async def _servers(host: Host, display: ProgressDisplay) -> None:
    """Start the servers and print which are not ready: the answer is given without them."""
    from dovetail.host.consent.consent import NOBODY

    await host.ready()
    for status in host.servers.values():
        error = status.error or status.state
        if status.state in ("ready", "disabled"):
            continue
        if error.startswith(NOBODY):
            error = f"its launch is not approved; --launch {status.key} approves it"
        display.note(f"{status.key} is not ready: {error}")


async def _answer(
    chat: Chat, question: str, attached: list[tuple[str, str]], display: ProgressDisplay
) -> dict[str, Any]:
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
                    # Text before a tool call is not part of the answer.
                    _print_interim_text(pieces, display)
                    calls[event.id] = {"server": event.server, "tool": event.tool, "arguments": event.arguments}
                    display.note(_tool_label(event))
                case ToolProgress():
                    display.progress(event.progress, event.total, f"{event.tool}: {event.message or ''}", event.id)
                case ToolFinished():
                    display.end_progress(event.id)
                    calls[event.id] |= {"refused": event.refused, "isError": bool(event.result.is_error)}
                    if event.refused:
                        display.note(f"{_tool_label(event)} was refused: {_refusal_reason(event)}")
                case Attached():
                    if event.problem:
                        raise CommandFailed("not_found", f"{event.uri} of {event.server}: {event.problem}")
                case TurnEnded():
                    reason = event.reason
    text = "".join(pieces)
    if not text.strip():
        raise CommandFailed(
            "invalid_answer", f"The model {chat.model} gave no answer: {_CUT.get(reason, 'it was empty')}."
        )
    if reason in _CUT:
        display.line(f"The answer is incomplete: {_CUT[reason]}.")
    return {"text": text, "model": chat.model, "calls": list(calls.values()), "reason": reason}


@contextlib.asynccontextmanager
async def _model_errors() -> AsyncGenerator[None]:
    """Convert errors of the model to exit codes."""
    from dovetail.host.models.errors import ModelFailed

    try:
        yield
    except ModelFailed as problem:
        if problem.status in (401, 403):
            raise CommandFailed("unauthorized", str(problem), UNAUTHORIZED) from None
        raise CommandFailed("model_failed", str(problem)) from None


def _tool_label(event: ToolStarted | ToolFinished) -> str:
    """Server and tool; tools of the host itself have no server."""
    return f"{event.server}: {event.tool}" if event.server else event.tool


def _refusal_reason(event: ToolFinished) -> str:
    """The reason of a refusal; only the first line, the rest is for models."""
    from dovetail.host.consent.consent import NOBODY

    why = event.result.text.partition("\n")[0]
    if why.startswith(NOBODY):
        return f"it needs approval; --allow {event.server}__{event.tool} approves it"
    return why


def _attachment(word: str) -> tuple[str, str]:
    server, sign, uri = word.partition("=")
    if not sign or not server or not uri:
        raise UsageError(f"{word!r} is not of the form SERVER=URI")
    return server, uri


def _print_interim_text(pieces: list[str], display: ProgressDisplay) -> None:
    if said := "".join(pieces).strip():
        display.note(said)
    pieces.clear()


def _user_callbacks(options: argparse.Namespace, display: ProgressDisplay) -> dict[str, Any]:
    """Callbacks of the host that ask the user; none without `--interactive`."""
    if not options.interactive:
        return {}
    from dovetail.cli.chat.dialogs import ApprovalDialogs
    from dovetail.cli.chat.forms import ElicitationForms, input_secrets
    from dovetail.cli.chat.ui.line_ui import LineUI
    from dovetail.cli.terminal.terminal import Terminal

    ui = LineUI(Terminal(display), sys.stderr, display)
    task = asyncio.current_task()

    def stop() -> None:
        if task is not None:
            task.cancel()

    dialogs, forms = ApprovalDialogs(ui, stop), ElicitationForms(ui, stop)
    return {"on_approve": dialogs.approve, "on_elicit": forms.elicit, "secrets": input_secrets(ui)}


class _ServerMessages:
    """Prints events of servers to stderr."""

    def __init__(self, display: ProgressDisplay) -> None:
        self._display = display
        self.started = False
        """While False, failures to start are not printed here but together, once all servers have tried."""

    def on_event(self, event: HostEvent) -> None:
        """Print definitions that are withheld, and servers that were lost."""
        from dovetail.host.events import ServerStatus

        if event.kind == "definition":
            what = f"{event.detail.kind} {event.detail.name}".strip()
            self._display.note(f"{event.server}: {what} is withheld; see `dovetail lock`")
        elif self.started and isinstance(event.detail, ServerStatus) and event.detail.state == "waiting":
            self._display.note(f"{event.server}: {event.detail.error}")
