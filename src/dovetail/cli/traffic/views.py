"""Views of an exchange: one line of at most the given width, and all of its messages as indented JSON."""

from __future__ import annotations

import time
from typing import Any, cast

import msgspec

from dovetail.cli.chat.ui.colours import Tone
from dovetail.cli.chat.views.rendering import exact, one_line
from dovetail.cli.output import cut, width_of
from dovetail.host.events import TrafficLine
from dovetail.text.redact import REDACTED, is_secret, redact_text

from .exchange import TrafficExchange

ARROWS = {"sent": "->", "received": "<-"}
"""Direction of the request: to the server, or from it."""

_MAX_DEPTH = 64
_NOT_SECRET = frozenset({"progressToken"})
_RELATED_SHOWN = 20
_NAME_ROOM = 10
_NARROW = 72
"""Below so many columns, a line has no time and no size."""
_SHORT = {"tool error": "failed", "input required": "input", "notification": ""}
"""Outcomes that are shorter on a line."""
_UNITS = ("B", "kB", "MB", "GB")


def exchange_line(exchange: TrafficExchange, width: int = 80) -> str:
    """The exchange on one line: number, time, server, direction, method, subject, outcome, duration and size."""
    narrow = width < _NARROW
    left = f"{exchange.number:4} " + ("" if narrow else f"{clock(exchange.at)} ")
    left += f"{_fitted(one_line(exchange.server), _NAME_ROOM)} {ARROWS[exchange.request.direction]} "
    right = f" {_SHORT.get(exchange.outcome, exchange.outcome):>9} {duration(exchange.seconds):>7}"
    right += "" if narrow else f" {size(exchange.bytes):>7}"
    return left + _fitted(_about(exchange), max(width - width_of(left + right), 10)) + right


def exchange_tone(exchange: TrafficExchange) -> Tone:
    """The colour of its line."""
    if exchange.outcome in ("error", "tool error"):
        return "bad"
    if exchange.outcome in ("cancelled", "input required"):
        return "warn"
    if exchange.outcome == "notification" or exchange.method == "ping":
        return "dim"
    return "name" if exchange.from_server else "plain"


def exchange_details(exchange: TrafficExchange) -> list[tuple[Tone, str]]:
    """Every message of the exchange as indented JSON, secrets redacted; each text may have several lines."""
    head = f"{exchange.number}: {exchange.server} {ARROWS[exchange.request.direction]} {exchange.method or 'message'}"
    facts = [clock(exchange.at), outcome_text(exchange), duration(exchange.seconds), size(exchange.bytes)]
    lines: list[tuple[Tone, str]] = [("strong", one_line(head)), ("dim", "  " + ", ".join(filter(None, facts)))]
    if exchange.error:
        lines.append(("bad", f"  {one_line(redact_text(exchange.error))}"))
    lines += _message("request" if exchange.outcome != "notification" else "message", exchange.request, exchange)
    for line in exchange.related[:_RELATED_SHOWN]:
        lines += _message("about it", line, exchange)
    more = exchange.related_count - min(len(exchange.related), _RELATED_SHOWN)
    if more:
        lines.append(("dim", f"  … and {more} more notifications"))
    if exchange.answer is not None:
        lines += _message("answer", exchange.answer, exchange)
    return lines


def message_json(line: TrafficLine) -> str:
    """A message as indented JSON with its secrets redacted and invisible characters escaped."""
    try:
        value = redacted(msgspec.json.decode(line.message))
    except (msgspec.MsgspecError, RecursionError):
        return exact(redact_text(line.message.decode(errors="replace")))
    return exact(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def redacted(value: Any, name: str = "", depth: int = 0) -> Any:
    """A message without secrets: texts that look like one, and values of members that are named like one.

    Unlike `text.redact` it keeps progress tokens, and schemas of arguments that are named like a secret.
    """
    if isinstance(value, dict):
        if depth >= _MAX_DEPTH:
            return REDACTED
        members = cast("dict[str, Any]", value)
        return {key: redacted(inner, key, depth + 1) for key, inner in members.items()}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [redacted(item, name, depth + 1) for item in items] if depth < _MAX_DEPTH else REDACTED
    if value is None or isinstance(value, bool):
        return value
    if name not in _NOT_SECRET and is_secret(name):
        return REDACTED
    return redact_text(value) if isinstance(value, str) else value


def outcome_text(exchange: TrafficExchange) -> str:
    """The outcome in words for a user; empty for a notification."""
    return "" if exchange.outcome == "notification" else exchange.outcome


def duration(seconds: float | None) -> str:
    """A duration in at most seven characters; empty for None."""
    if seconds is None:
        return ""
    if seconds < 0.0995:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.00995 else f"{seconds * 1000:.0f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 1000 else f"{seconds:.0f} s"


def size(number: int) -> str:
    """A number of bytes in at most seven characters."""
    amount, unit = float(number), 0
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 or amount >= 99.95 else f"{amount:.1f} {_UNITS[unit]}"


def clock(at: float) -> str:
    """The local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def _about(exchange: TrafficExchange) -> str:
    method = exchange.method.removeprefix("notifications/") if exchange.outcome == "notification" else exchange.method
    subject = one_line(redact_text(exchange.subject))
    about = f"{one_line(method or 'message')} {subject}".rstrip()
    return about + (f" (+{exchange.related_count})" if exchange.related_count else "")


def _message(what: str, line: TrafficLine, exchange: TrafficExchange) -> list[tuple[Tone, str]]:
    later = f", {duration(max(line.at - exchange.at, 0.0))} later" if line is not exchange.request else ""
    cut_off = f", cut off after {len(line.message)} bytes" if len(line.message) < line.size else ""
    head = f"  {ARROWS[line.direction]} {what}{later}, {size(line.size)}{cut_off}:"
    body = "\n".join(f"  | {text}" for text in message_json(line).split("\n"))
    return [("dim", head), ("name" if line.direction == "sent" else "plain", body)]


def _fitted(text: str, room: int) -> str:
    """Text in exactly so many columns."""
    if width_of(text) > room:
        text = cut(text, room - 1) + "…"
    return text + " " * (room - width_of(text))
