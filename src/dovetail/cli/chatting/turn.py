"""One turn of the conversation as it appears at the terminal."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.types.content import Text

from .links import Link
from .rendering import exact, one_line, shortened
from .session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dovetail.host.chat import Chat
    from dovetail.host.chat_events import ToolFinished, TurnEnded
    from dovetail.types.interaction import SamplingMessage

_LINES = 6
"""Lines of a tool's result that are shown; the model sees more of it."""

_ENDS = {
    "stopped": "stopped",
    "length": "the model used up its tokens",
    "rounds": "too many rounds; say something to go on",
    "calls": "too many calls; say something to go on",
    "output": "the answer was too long",
}


async def say(session: Session, chat: Chat, words: str | Sequence[SamplingMessage], server: str | None = None) -> None:
    """Say something to the model, in the words of the person or of a server's prompt, and show what comes of it."""
    attached = [(link.server, link.uri) for link in session.attached]
    session.attached.clear()
    try:
        async with aclosing(chat.say(words, attach=attached, server=server)) as events:
            async for event in events:
                _show(session, event)
    finally:
        session.surface.end_progress()


def _show(session: Session, event: Any) -> None:
    from dovetail.host.chat_events import Attached, ToolFinished, ToolProgress, ToolStarted, TurnEnded
    from dovetail.host.models.contract import TextDelta

    surface = session.surface
    match event:
        case TextDelta():
            surface.end_progress()
            surface.stream(event.text)
        case Attached():
            what = f"not attached: {event.problem}" if event.problem else f"attached, about {event.tokens} tokens"
            surface.say(("dim", f"  {one_line(event.uri)} of {event.server}: {what}"))
        case ToolStarted():
            surface.say(
                ("name", f"* {event.server}: {event.tool} "), ("dim", _arguments(event.arguments, surface.width))
            )
        case ToolProgress():
            surface.progress(event.progress, event.total, f"{event.tool}: {event.message or ''}")
        case ToolFinished():
            surface.end_progress()
            _finished(session, event)
        case TurnEnded():
            _ended(session, event)
        case _:
            pass


def _arguments(arguments: dict[str, Any], width: int) -> str:
    return shortened(msgspec.json.encode(arguments).decode(), max(width - 40, 20)) if arguments else ""


def _finished(session: Session, event: ToolFinished) -> None:
    say = session.surface.say
    if event.refused:
        say(("warn", f"  x {event.tool} was refused"))
        return
    head = ("bad", "  ! ") if event.result.is_error else ("good", "  < ")
    text = "\n".join(block.text for block in event.result.content if isinstance(block, Text))
    lines = exact(text).strip().split("\n")
    for line in lines[:_LINES]:
        say(head, ("dim", line))
        head = ("dim", "    ")
    if len(lines) > _LINES:
        say(("dim", f"    … {len(lines) - _LINES} lines more"))
    others = [block for block in event.result.content if not isinstance(block, Text)]
    if others and not event.links:
        say(("dim", f"    and {len(others)} that are no text"))
    for each in event.links:
        number = session.links.add(Link(each.server, each.link.uri, each.link.title or each.link.name))
        say(
            "    ",
            ("name", f"[{number}]"),
            f" {one_line(each.link.title or each.link.name)}: {one_line(each.link.uri)}",
        )


def _ended(session: Session, event: TurnEnded) -> None:
    session.surface.end_progress()
    if event.reason in _ENDS:
        session.surface.say(("warn", f"({_ENDS[event.reason]})"))
    else:
        session.surface.say()
