"""`/log` and `/traffic`: what servers wrote, and the messages that went by."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dovetail.cli.chat.new_file import new_file
from dovetail.cli.chat.session import Session
from dovetail.cli.chat.ui.colours import Tone
from dovetail.cli.parser import UsageError

from .rendering import one_line

if TYPE_CHECKING:
    from dovetail.host.events import LogLine, TrafficLine

_LATEST = 40
_POLL = 0.2
_LEVELS: dict[str, Tone] = {
    "warning": "warn",
    "error": "bad",
    "critical": "bad",
    "alert": "bad",
    "emergency": "bad",
    "debug": "dim",
}
_ARROWS = {"sent": "-->", "received": "<--"}


async def log(session: Session, words: list[str]) -> None:
    """The latest lines of one server, or of all; further words narrow them."""
    keys, sought = _narrowed(session, words)
    lines = sorted((line for key in keys for line in session.host.logs(key)), key=lambda line: line.at)
    shown = [line for line in lines if _has(line.text, sought)][-_LATEST:]
    for line in shown:
        session.surface.say((_LEVELS.get(line.level, "plain"), log_text(line)))
    if not shown:
        session.surface.say(("dim", _none("line was written", sought)))


async def traffic(session: Session, words: list[str]) -> None:
    """The latest messages, narrowed by a server and by words; `save FILE` writes them down, `follow` goes on."""
    action, rest = (words[0], words[1:]) if words and words[0] in ("save", "follow") else ("show", words)
    if action == "save":
        _save(session, rest)
        return
    last = _show(session, _found(session, rest)[-_LATEST:])
    if not last and action == "show":
        session.surface.say(("dim", _none("message went by", _narrowed(session, rest)[1])))
    if action == "follow":
        session.surface.say(("dim", "  Messages are shown as they go by; Ctrl-C ends it."))
    while action == "follow":
        await asyncio.sleep(_POLL)
        last = _show(session, [line for line in _found(session, rest) if line.at > last]) or last


def log_text(line: LogLine) -> str:
    """One line of a log."""
    return f"{_clock(line.at)} {line.server} {line.source} {line.level}: {one_line(line.text)}"


def _found(session: Session, words: list[str]) -> list[TrafficLine]:
    keys, sought = _narrowed(session, words)
    lines = session.host.traffic(keys[0] if len(keys) == 1 else None)
    return [line for line in lines if line.server in keys and _has(line.message.decode(errors="replace"), sought)]


def _show(session: Session, lines: Sequence[TrafficLine]) -> float:
    for line in lines:
        tone: Tone = "name" if line.direction == "sent" else "plain"
        head = f"{_clock(line.at)} {line.server} {_ARROWS[line.direction]} "
        session.surface.say(("dim", head), (tone, one_line(line.message.decode(errors="replace"))))
    return lines[-1].at if lines else 0.0


def _save(session: Session, words: list[str]) -> None:
    import msgspec

    if not words:
        raise UsageError("name a file: /traffic save FILE")
    lines = _found(session, words[1:])
    records = [
        {
            "at": line.at,
            "server": line.server,
            "direction": line.direction,
            "message": line.message.decode(errors="replace"),
        }
        for line in lines
    ]
    path = new_file(words[0], b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    session.surface.say(f"  {len(lines)} messages are in {path}.")


def _narrowed(session: Session, words: list[str]) -> tuple[list[str], list[str]]:
    """Which servers, and which words must stand there."""
    keys = list(session.host.servers)
    if words and words[0] in keys:
        return [words[0]], words[1:]
    return keys, words


def _none(what: str, sought: list[str]) -> str:
    return f"  No {what}{' that has ' + ' and '.join(map(repr, sought)) if sought else ''}."


def _has(text: str, sought: list[str]) -> bool:
    return all(word.lower() in text.lower() for word in sought)


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
