"""HTML of the pages of a gateway, without scripts and without anything from elsewhere."""

from __future__ import annotations

from html import escape

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem; margin: 0 } p { margin: .2rem 0 1.2rem; color: #6b6b6b }
.scrolls { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th { font-weight: 600; white-space: nowrap; border-bottom: 2px solid #8886 }
th, td { text-align: left; padding: .35rem .7rem; vertical-align: top } td { border-bottom: 1px solid #8883 }
.ready { color: #18794e } .failing { color: #cd2b31 } .idle { color: #6b6b6b }
.state { white-space: nowrap } .state::before { content: "\\25CF"; margin-right: .4em }
@media (prefers-color-scheme: dark) {
  .ready { color: #4cc38a } .failing { color: #ff6369 } .idle, p { color: #a0a0a0 }
}
"""


def html_page(title: str, body: str, style: str = "") -> str:
    """A page with the style of all pages, and some of its own; `body` is HTML."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style>{body}</html>\n"
    )
