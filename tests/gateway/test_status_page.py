"""The status of a gateway as a page."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from dovetail.gateway.status_page import status_page


class Page(HTMLParser):
    """The cells of the table, the text and the elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.elements: list[str] = []
        self.text = ""
        self._in_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self._in_cell = True
        elif tag == "br" and self._in_cell:
            self.rows[-1][-1] += "\n"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_cell:
            self.rows[-1][-1] += data


def status(**servers: dict[str, Any]) -> dict[str, Any]:
    return {"gateway": "team", "version": "1.2.3", "servers": servers}


IDLE = {"state": "idle", "connections": 0, "requests": 0, "errors": 0, "failures": 0, "refused": 0, "meanSeconds": 0.0}
READY = {
    "state": "ready",
    "revision": "2025-11-25",
    "tools": 12,
    "tokens": 3456,
    "connections": 2,
    "requests": 1000,
    "errors": 3,
    "failures": 1,
    "refused": 4,
    "meanSeconds": 0.01234,
}
FAILING = {**IDLE, "state": "failing", "reason": "it <b>ended</b>\nwith code 1"}


def test_each_server_has_a_row() -> None:
    page = Page(status_page(status(git=READY, web=IDLE)))
    assert page.rows[0] == [
        "Server",
        "State",
        "Revision",
        "Tools",
        "Tokens",
        "Connections",
        "Requests",
        "Errors",
        "Refused",
        "Mean",
    ]
    assert page.rows[1] == ["git", "ready", "2025-11-25", "12", "3,456", "2", "1,000", "3", "4", "12.3 ms"]
    assert page.rows[2] == ["web", "idle", "", "", "", "0", "0", "0", "0", ""]


def test_a_server_that_fails_says_why() -> None:
    page = Page(status_page(status(git=FAILING)))
    assert page.rows[1][1].startswith("failing")
    assert "it <b>ended</b>\nwith code 1" in page.rows[1][1]


def test_what_is_held_back_is_named() -> None:
    held = [{"kind": "tool", "name": f"<b>{number}</b>", "reason": "it has changed"} for number in range(7)]
    shown = Page(status_page(status(git={**READY, "quarantined": held}))).rows[1][1]
    assert "Held back: tool <b>0</b>, tool <b>1</b>" in shown
    assert shown.endswith("tool <b>4</b> and 2 more")


def test_what_a_server_is_called_and_says_is_text_and_nothing_else() -> None:
    hostile = "<script>alert(1)</script>\"'>"
    text = status_page({"gateway": hostile, "version": hostile, "servers": {hostile: {**FAILING, "reason": hostile}}})
    page = Page(text)
    assert "script" not in page.elements
    assert page.text.count("<script>alert(1)</script>") >= 3


def test_the_page_loads_nothing() -> None:
    text = status_page(status(git=READY))
    assert not {"script", "img", "link", "iframe"} & set(Page(text).elements)
    assert "http:" not in text and "https:" not in text and "url(" not in text


def test_a_gateway_without_servers_says_so() -> None:
    assert "no servers" in Page(status_page(status())).text


def test_the_page_counts_the_servers_that_fail() -> None:
    page = Page(status_page(status(git=READY, web=FAILING, wiki=IDLE)))
    assert "3 servers" in page.text and "1 of them is failing" in page.text
