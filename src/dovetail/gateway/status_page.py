"""The status of a gateway as a page."""

from __future__ import annotations

from html import escape
from typing import Any

from .html import html_page

_STYLE = """
td:first-child { font-weight: 600 } td:nth-child(3) { white-space: nowrap }
td, th { padding-left: .35rem; padding-right: .35rem }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.reason { font-size: .87rem; min-width: 14rem; max-width: 32rem; white-space: pre-wrap; overflow-wrap: anywhere }
"""

_COLUMNS = ("Server", "State", "Revision", "Tools", "Tokens", "Connections", "Requests", "Errors", "Refused", "Mean")


MAX_HELD = 5
"""Definitions that are held back which the page names, for each server."""


def status_page(status: dict[str, Any]) -> str:
    """The page for a browser."""
    head = "".join(f"<th{_number(at > 2)}>{name}</th>" for at, name in enumerate(_COLUMNS))
    rows = "".join(_row(name, server) for name, server in status["servers"].items())
    table = f'<div class="scrolls"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    title = str(status["gateway"])
    body = f"<h1>{escape(title)}</h1><p>{_summary(status)}</p>{table if rows else ''}"
    return html_page(title, body, _STYLE)


def _summary(status: dict[str, Any]) -> str:
    servers: dict[str, Any] = status["servers"]
    failing = sum(server["state"] == "failing" for server in servers.values())
    count = f"{len(servers) or 'no'} server{'' if len(servers) == 1 else 's'}"
    works = "" if not failing else f", {failing} of them {'is' if failing == 1 else 'are'} failing"
    return f"{count}{works} · Dovetail {escape(str(status['version']))}"


def _number(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _row(name: str, server: dict[str, Any]) -> str:
    state, reason = str(server["state"]), server.get("reason")
    shown = f'<span class="state {escape(state)}">{escape(state)}</span>'
    if reason:
        shown += f'<div class="reason">{escape(str(reason))}</div>'
    if held := server.get("quarantined"):
        names = ", ".join(f"{one['kind']} {one['name']}" for one in held[:MAX_HELD])
        more = f" and {len(held) - MAX_HELD} more" if len(held) > MAX_HELD else ""
        shown += f'<div class="reason">Held back: {escape(names + more)}</div>'
    numbers = (
        _count(server.get("tools")),
        _count(server.get("tokens")),
        _count(server["connections"]),
        _count(server["requests"]),
        _count(server["errors"]),
        _count(server["refused"]),
        f"{server['meanSeconds'] * 1000:,.1f} ms" if server["requests"] else "",
    )
    cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
    return f"<tr><td>{escape(name)}</td><td>{shown}</td><td>{escape(server.get('revision') or '')}</td>{cells}</tr>"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
