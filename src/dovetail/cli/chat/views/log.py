"""`/log`: the logs of servers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dovetail.cli.chat.session import ChatSession
from dovetail.cli.chat.ui.colours import Tone

from .rendering import one_line

if TYPE_CHECKING:
    from dovetail.host.events import LogLine

_LATEST = 40
_LEVELS: dict[str, Tone] = {
    "warning": "warn",
    "error": "bad",
    "critical": "bad",
    "alert": "bad",
    "emergency": "bad",
    "debug": "dim",
}


async def log(session: ChatSession, words: list[str]) -> None:
    """Show the latest lines of one server, or of all; further words filter them."""
    keys, sought = _split_filter(session, words)
    lines = sorted((line for key in keys for line in session.host.logs(key)), key=lambda line: line.at)
    shown = [line for line in lines if _contains(line.text, sought)][-_LATEST:]
    for line in shown:
        session.ui.say((_LEVELS.get(line.level, "plain"), log_text(line)))
    if not shown:
        found = f" with {' and '.join(map(repr, sought))}" if sought else ""
        session.ui.say(("dim", f"  No log line{found}."))


def log_text(line: LogLine) -> str:
    """Format a line of a log."""
    return f"{_clock(line.at)} {line.server} {line.source} {line.level}: {one_line(line.text)}"


def _split_filter(session: ChatSession, words: list[str]) -> tuple[list[str], list[str]]:
    """The servers, and the words that must occur."""
    keys = list(session.host.servers)
    if words and words[0] in keys:
        return [words[0]], words[1:]
    return keys, words


def _contains(text: str, sought: list[str]) -> bool:
    return all(word.lower() in text.lower() for word in sought)


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
