"""Display of one turn of the conversation."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.cli.chat.ui.colours import Part
from dovetail.cli.chat.views.rendering import counted, exact, one_line, shortened
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.contents import ContentRenderer, result_table
from dovetail.types.content import ResourceLink, Text

from .activity_line import ActivityLine
from .session import ChatSession, NumberedResource, mentioned_resources
from .usage import turn_summary

if TYPE_CHECKING:
    from dovetail.host.chat.chat import Chat, Words
    from dovetail.host.chat.events import ToolFinished, ToolStarted, TurnEnded

_ROWS = 12
_LINES = 6
"""Lines of a tool result that are shown; the model sees more."""

_ENDS = {
    "stopped": "stopped",
    "length": "the model used up its tokens",
    "rounds": "too many rounds; send a message to continue",
    "calls": "too many calls; send a message to continue",
    "output": "the answer was too long",
}


async def send_to_model(session: ChatSession, words: Words, server: str | None = None) -> None:
    """Send a message of the user, or the messages of a server's prompt, if there is a model."""
    from dovetail.cli.options.model_choice import model_help

    if session.chat is None:
        raise UsageError(f"no model is configured. {model_help()}")
    await run_turn(session, session.chat, words, server)


async def run_turn(session: ChatSession, chat: Chat, words: Words, server: str | None = None) -> None:
    """Send a message of the user, or the messages of a server's prompt, and show the events of the turn."""
    mentioned = mentioned_resources(words, session.host.servers) if isinstance(words, str) else []
    attached = [(link.server, link.uri) for link in dict.fromkeys([*session.attached, *mentioned])]
    session.attached.clear()
    view = _TurnView(session, chat)
    try:
        async with view.activity.shown(), aclosing(chat.say(words, attach=attached, server=server)) as events:
            async for event in events:
                view.show(event)
    finally:
        session.ui.end_stream()
        session.ui.end_progress()


class _TurnView:
    """The state of a turn on the screen."""

    def __init__(self, session: ChatSession, chat: Chat) -> None:
        self._session = session
        self._chat = chat
        self._ui = session.ui
        self.activity = ActivityLine(session.ui, chat.model)
        self._several = False
        """Calls run in parallel, so results must name their tool."""
        self._said = False
        self._after_result = False

    def show(self, event: Any) -> None:
        """Show an event."""
        from dovetail.host.chat.events import Attached, ToolFinished, ToolProgress, ToolStarted, TurnEnded
        from dovetail.host.models.contract import TextDelta

        ui = self._ui
        match event:
            case TextDelta():
                if self._after_result:
                    ui.say()
                self._after_result = False
                ui.stream(event.text)
                self.activity.count(event.text)
                self._said = True
            case Attached():
                what = f"not attached: {event.problem}" if event.problem else f"attached, about {event.tokens} tokens"
                ui.say(("dim", f"  {one_line(event.uri)} of {event.server}: {one_line(what)}"))
            case ToolStarted():
                self._started(event)
            case ToolProgress():
                ui.progress(event.id, event.progress, event.total, f"{event.tool}: {event.message or ''}")
            case ToolFinished():
                ui.end_progress(event.id)
                self._finished(event)
            case TurnEnded():
                self._ended(event)
            case _:
                pass

    def _started(self, event: ToolStarted) -> None:
        self._said = False
        running = self.activity.running
        self._several = self._several if running else False
        running[event.id] = one_line(event.tool)
        self._several = self._several or len(running) > 1
        self._ui.end_stream()
        self._ui.say(
            ("name", f"* {_tool_label(event)} "),
            ("dim", _arguments(event.arguments, self._ui.width - len(_tool_label(event)))),
        )

    def _finished(self, event: ToolFinished) -> None:
        self.activity.running.pop(event.id, None)
        self._after_result = True
        say = self._ui.say
        if event.refused:
            say(("warn", f"  x {event.tool} was refused"))
            return
        if event.task is not None:
            say(("warn", f"  … {event.tool} goes on in the background, as task {event.task}; /tasks lists it"))
            return
        head: list[Part] = [("bad", "  ! ") if event.result.is_error else ("good", "  < ")]
        if self._several:
            head.append(("name", f"{_tool_label(event)}: "))
        table = result_table(event.result, self._ui.width - 4)
        text = "\n".join(block.text for block in event.result.content if isinstance(block, Text))
        lines = exact("\n".join(line[2:] for line in table) if table else text.strip()).split("\n")
        most = _ROWS if table else _LINES
        for line in lines[:most]:
            say(*head, ("dim", line))
            head = ["    "]
        if len(lines) > most:
            say(("dim", f"    … {counted(len(lines) - most, 'line')} more"))
        others = [block for block in event.result.content if not isinstance(block, (Text, ResourceLink))]
        for block in others:
            say(("dim", f"    {one_line(ContentRenderer(None).describe(block))}"))
        for each in event.links:
            number = self._session.links.add(
                NumberedResource(each.server, each.link.uri, each.link.title or each.link.name)
            )
            name = one_line(each.link.title or each.link.name)
            say("    ", ("name", f"[{number}]"), f" {name}: {one_line(each.link.uri)}")

    def _ended(self, event: TurnEnded) -> None:
        ui = self._ui
        ui.activity("")
        ui.end_stream()
        ui.end_progress()
        self._session.usage.add(self._chat, event)
        if event.reason in _ENDS:
            ui.say(("warn", f"({_ENDS[event.reason]})"))
        elif not self._said:
            ui.say(("warn", "(the model gave no answer)"))
        ui.say()
        ui.say(("dim", f"  {turn_summary(self.activity.seconds, event.usage)}"))


def _tool_label(event: ToolStarted | ToolFinished) -> str:
    """Server and tool; tools of the host itself have no server."""
    return f"{event.server}: {event.tool}" if event.server else event.tool


def _arguments(arguments: dict[str, Any], room: int) -> str:
    return shortened(msgspec.json.encode(arguments).decode(), max(room - 4, 20)) if arguments else ""
