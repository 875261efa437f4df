"""The status of a gateway as a page, without scripts and without anything from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .35rem .7rem; border-bottom: 1px solid #8884; vertical-align: top }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
.ready { color: #18794e } .failing { color: #cd2b31 } .idle { color: #8a8a8a }
@media (prefers-color-scheme: dark) { .ready { color: #4cc38a } .failing { color: #ff6369 } }
"""

_COLUMNS = ("Server", "State", "Revision", "Tools", "Tokens", "Connections", "Requests", "Errors", "Mean")


def status_page(status: dict[str, Any]) -> str:
    """The page for a browser."""
    head = "".join(f'<th class="{"number" if at > 2 else ""}">{name}</th>' for at, name in enumerate(_COLUMNS))
    rows = "".join(_row(name, server) for name, server in status["servers"].items())
    title = escape(str(status["gateway"]))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></html>\n"
    )


def _row(name: str, server: dict[str, Any]) -> str:
    state, reason = str(server["state"]), server.get("reason")
    shown = f'<span class="{escape(state)}">{escape(state)}</span>' + (f"<br>{escape(str(reason))}" if reason else "")
    numbers = (
        server.get("tools", ""),
        server.get("tokens", ""),
        server["connections"],
        server["requests"],
        server["errors"],
        f"{server['meanSeconds'] * 1000:.1f} ms" if server["requests"] else "",
    )
    cells = "".join(f'<td class="number">{escape(str(number))}</td>' for number in numbers)
    return f"<tr><td>{escape(name)}</td><td>{shown}</td><td>{escape(server.get('revision') or '')}</td>{cells}</tr>"
