"""One turn of the conversation as it appears at the terminal."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.cli.chat.ui.colours import Part
from dovetail.cli.chat.views.rendering import counted, exact, one_line, shortened
from dovetail.cli.terminal.contents import Keeper
from dovetail.types.content import ResourceLink, Text

from .resource_links import Link
from .session import Session

if TYPE_CHECKING:
    from dovetail.host.chat.chat import Chat, Words
    from dovetail.host.chat.events import ToolFinished, ToolStarted, TurnEnded

_LINES = 6
"""Lines of a tool's result that are shown; the model sees more of it."""

_ENDS = {
    "stopped": "stopped",
    "length": "the model used up its tokens",
    "rounds": "too many rounds; say something to go on",
    "calls": "too many calls; say something to go on",
    "output": "the answer was too long",
}


async def say(session: Session, chat: Chat, words: Words, server: str | None = None) -> None:
    """Say something to the model, in the words of the person or of a server's prompt, and show what comes of it."""
    attached = [(link.server, link.uri) for link in session.attached]
    session.attached.clear()
    shown = _Shown(session)
    try:
        async with aclosing(chat.say(words, attach=attached, server=server)) as events:
            async for event in events:
                shown.show(event)
    finally:
        session.surface.end_progress()


class _Shown:
    """A turn as far as it has been shown."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._surface = session.surface
        self._running: set[str] = set()
        self._several = False
        """Calls run side by side, so their results have to say whose they are."""
        self._said = False

    def show(self, event: Any) -> None:
        """Show what happens next."""
        from dovetail.host.chat.events import Attached, ToolFinished, ToolProgress, ToolStarted, TurnEnded
        from dovetail.host.models.contract import TextDelta

        surface = self._surface
        match event:
            case TextDelta():
                surface.end_progress()
                surface.stream(event.text)
                self._said = True
            case Attached():
                what = f"not attached: {event.problem}" if event.problem else f"attached, about {event.tokens} tokens"
                surface.say(("dim", f"  {one_line(event.uri)} of {event.server}: {one_line(what)}"))
            case ToolStarted():
                self._started(event)
            case ToolProgress():
                surface.progress(event.id, event.progress, event.total, f"{event.tool}: {event.message or ''}")
            case ToolFinished():
                surface.end_progress(event.id)
                self._finished(event)
            case TurnEnded():
                self._ended(event)
            case _:
                pass

    def _started(self, event: ToolStarted) -> None:
        self._said = False
        self._several = self._several if self._running else False
        self._running.add(event.id)
        self._several = self._several or len(self._running) > 1
        self._surface.say(
            ("name", f"* {_of(event)} "), ("dim", _arguments(event.arguments, self._surface.width - len(_of(event))))
        )

    def _finished(self, event: ToolFinished) -> None:
        self._running.discard(event.id)
        say = self._surface.say
        if event.refused:
            say(("warn", f"  x {event.tool} was refused"))
            return
        head: list[Part] = [("bad", "  ! ") if event.result.is_error else ("good", "  < ")]
        if self._several:
            head.append(("name", f"{_of(event)}: "))
        text = "\n".join(block.text for block in event.result.content if isinstance(block, Text))
        lines = exact(text).strip().split("\n")
        for line in lines[:_LINES]:
            say(*head, ("dim", line))
            head = ["    "]
        if len(lines) > _LINES:
            say(("dim", f"    … {counted(len(lines) - _LINES, 'line')} more"))
        others = [block for block in event.result.content if not isinstance(block, (Text, ResourceLink))]
        for block in others:
            say(("dim", f"    {one_line(Keeper(None).describe(block))}"))
        for each in event.links:
            number = self._session.links.add(Link(each.server, each.link.uri, each.link.title or each.link.name))
            name = one_line(each.link.title or each.link.name)
            say("    ", ("name", f"[{number}]"), f" {name}: {one_line(each.link.uri)}")

    def _ended(self, event: TurnEnded) -> None:
        self._surface.end_progress()
        if event.reason in _ENDS:
            self._surface.say(("warn", f"({_ENDS[event.reason]})"))
        elif not self._said:
            self._surface.say(("warn", "(the model had nothing to say)"))
        else:
            self._surface.say()


def _of(event: ToolStarted | ToolFinished) -> str:
    """Whose tool it is; those for finding tools are the host's own."""
    return f"{event.server}: {event.tool}" if event.server else event.tool


def _arguments(arguments: dict[str, Any], room: int) -> str:
    return shortened(msgspec.json.encode(arguments).decode(), max(room - 4, 20)) if arguments else ""
