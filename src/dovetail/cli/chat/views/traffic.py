"""`/traffic`: exchanges with the servers, one in full, followed while one works, and saved."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from dovetail.cli.chat.session import ChatSession
from dovetail.cli.chat.views.results import write_new_file
from dovetail.cli.parser import UsageError
from dovetail.cli.traffic.filters import TrafficFilter, read_filter
from dovetail.cli.traffic.live import TrafficFollower
from dovetail.cli.traffic.views import exchange_details, exchange_line, exchange_tone

if TYPE_CHECKING:
    from dovetail.cli.chat.ui.contract import ChatUI
    from dovetail.cli.traffic.exchange import TrafficExchange

_LATEST = 40


async def traffic(session: ChatSession, words: list[str]) -> None:
    """List the latest exchanges, or show one; `follow` shows them as they happen, `save FILE` saves the messages."""
    match words:
        case ["save", *rest]:
            _save(session, rest)
        case ["follow", *rest]:
            _follow(session, rest)
        case ["off" | "stop"]:
            _stop_following(session)
        case [number] if number.isascii() and number.isdigit():
            _show_one(session, int(number))
        case _:
            _list(session, read_filter(words, session.host.servers))


def _list(session: ChatSession, wanted: TrafficFilter) -> None:
    found = [each for each in session.traffic.log.all() if wanted.matches(each)]
    for exchange in found[-_LATEST:]:
        _say_line(session.ui, exchange)
    if not found:
        session.ui.say(("dim", f"  No message{_described(wanted)}."))
        return
    more = f" {len(found) - _LATEST} earlier ones are not shown." if len(found) > _LATEST else ""
    session.ui.say(("dim", f"  /traffic NUMBER shows one in full.{more}"))


def _show_one(session: ChatSession, number: int) -> None:
    log = session.traffic.log
    exchange = log.find(number)
    if exchange is None:
        kept = log.all()
        there = f"there are {kept[0].number} to {kept[-1].number}" if kept else "there is none yet"
        raise UsageError(f"no exchange {number} is kept; {there}")
    for tone, text in exchange_details(exchange):
        session.ui.say((tone, text))


def _follow(session: ChatSession, words: list[str]) -> None:
    if words[:1] == ["off"] or (session.following is not None and not words):
        _stop_following(session)
        return
    if words[:1] == ["on"]:
        words = words[1:]
    if session.following is not None:
        session.following.close()
    wanted = read_filter(words, session.host.servers)
    follower = TrafficFollower(wanted, lambda exchange: _notice_line(session.ui, exchange))
    following = session.following = ExitStack()
    following.callback(follower.close)
    following.enter_context(session.traffic.listening(follower.on_exchange))
    session.ui.say(("dim", f"  Messages{_described(wanted)} are shown as they pass; /traffic off ends it."))
    session.ui.say(("dim", "  In a second terminal, `dovetail traffic --follow` shows the same."))


def _stop_following(session: ChatSession) -> None:
    following, session.following = session.following, None
    if following is None:
        session.ui.say(("dim", "  Messages are not followed; /traffic follow begins it."))
        return
    following.close()
    session.ui.say(("dim", "  Messages are no longer followed."))


def _say_line(ui: ChatUI, exchange: TrafficExchange) -> None:
    ui.say((exchange_tone(exchange), exchange_line(exchange, ui.width)))


def _notice_line(ui: ChatUI, exchange: TrafficExchange) -> None:
    ui.notice((exchange_tone(exchange), exchange_line(exchange, ui.width)))


def _save(session: ChatSession, words: list[str]) -> None:
    import msgspec

    if not words:
        raise UsageError("name a file: /traffic save FILE")
    wanted = read_filter(words[1:], session.host.servers)
    lines = session.traffic.log.messages(wanted.matches)
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


def _described(wanted: TrafficFilter) -> str:
    parts = [f" of {' and '.join(wanted.servers)}"] if wanted.servers else []
    parts += [" that failed"] if wanted.errors else []
    parts += [f" with {' and '.join(map(repr, wanted.words))}"] if wanted.words else []
    return "".join(parts)
