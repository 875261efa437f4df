"""`/log` and `/traffic`: logs of servers, and JSON-RPC messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dovetail.cli.chat.session import ChatSession
from dovetail.cli.chat.ui.colours import Tone
from dovetail.cli.chat.views.results import write_new_file
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


async def log(session: ChatSession, words: list[str]) -> None:
    """Show the latest lines of one server, or of all; further words filter them."""
    keys, sought = _split_filter(session, words)
    lines = sorted((line for key in keys for line in session.host.logs(key)), key=lambda line: line.at)
    shown = [line for line in lines if _contains(line.text, sought)][-_LATEST:]
    for line in shown:
        session.ui.say((_LEVELS.get(line.level, "plain"), log_text(line)))
    if not shown:
        session.ui.say(("dim", _none("log line", sought)))


async def traffic(session: ChatSession, words: list[str]) -> None:
    """Show the latest messages, filtered by server and words; `save FILE` saves them, `follow` keeps printing."""
    action, rest = (words[0], words[1:]) if words and words[0] in ("save", "follow") else ("show", words)
    if action == "save":
        _save(session, rest)
        return
    last = _show(session, _messages(session, rest)[-_LATEST:])
    if not last and action == "show":
        session.ui.say(("dim", _none("message", _split_filter(session, rest)[1])))
    if action == "follow":
        session.ui.say(("dim", "  Messages are shown as they are sent; Ctrl-C stops it."))
    while action == "follow":
        await asyncio.sleep(_POLL)
        last = _show(session, [line for line in _messages(session, rest) if line.at > last]) or last


def log_text(line: LogLine) -> str:
    """Format a line of a log."""
    return f"{_clock(line.at)} {line.server} {line.source} {line.level}: {one_line(line.text)}"


def _messages(session: ChatSession, words: list[str]) -> list[TrafficLine]:
    keys, sought = _split_filter(session, words)
    lines = session.host.traffic(keys[0] if len(keys) == 1 else None)
    return [line for line in lines if line.server in keys and _contains(line.message.decode(errors="replace"), sought)]


def _show(session: ChatSession, lines: Sequence[TrafficLine]) -> float:
    for line in lines:
        tone: Tone = "name" if line.direction == "sent" else "plain"
        head = f"{_clock(line.at)} {line.server} {_ARROWS[line.direction]} "
        session.ui.say(("dim", head), (tone, one_line(line.message.decode(errors="replace"))))
    return lines[-1].at if lines else 0.0


def _save(session: ChatSession, words: list[str]) -> None:
    import msgspec

    if not words:
        raise UsageError("name a file: /traffic save FILE")
    lines = _messages(session, words[1:])
    records = [
        {
            "at": line.at,
            "server": line.server,
            "direction": line.direction,
            "message": line.message.decode(errors="replace"),
        }
        for line in lines
    ]
    path = write_new_file(words[0], b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    session.ui.say(f"  {len(lines)} messages are in {path}.")


def _split_filter(session: ChatSession, words: list[str]) -> tuple[list[str], list[str]]:
    """The servers, and the words that must occur."""
    keys = list(session.host.servers)
    if words and words[0] in keys:
        return [words[0]], words[1:]
    return keys, words


def _none(what: str, sought: list[str]) -> str:
    return f"  No {what}{' with ' + ' and '.join(map(repr, sought)) if sought else ''}."


def _contains(text: str, sought: list[str]) -> bool:
    return all(word.lower() in text.lower() for word in sought)


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
