"""The tables in docs/revisions.md agree with the revisions in the code."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.protocol.admission import status_of
from dovetail.protocol.errors import METHOD_NOT_FOUND
from dovetail.protocol.revisions import REVISIONS
from dovetail.protocol.revisions.revision import Revision

PAGE = Path(__file__).resolve().parents[2] / "docs" / "revisions.md"
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.read_text().splitlines()
    if line.startswith("|") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) > 2
}

FACTS: dict[str, Callable[[Revision], object]] = {
    "a connection begins with": lambda r: "initialize" in r.methods,
    "liveness check": lambda r: "ping" in r.methods,
    "requests from server to client": lambda r: r.server_requests == "direct",
    "form elicitation": lambda r: r.form,
    "URL elicitation": lambda r: "url" in r.known.get("ElicitParams", ()),
    "sampling with tools": lambda r: "tools" in r.known["CreateMessageParams"],
    "structured results": lambda r: r.structured,
    "audio": lambda r: "audio" in r.content_types,
    "resource links": lambda r: "resource_link" in r.content_types,
    "tool annotations": lambda r: "annotations" in r.known["Tool"],
    "titles": lambda r: "title" in r.known["Tool"],
    "icons": lambda r: "icons" in r.known["Tool"],
    "invalid tool arguments": lambda r: r.bad_arguments,
    "resource not found": lambda r: r.not_found_code,
    "JSON-RPC batches": lambda r: r.batching,
    "log level": lambda r: "logging/setLevel" in r.methods,
    "resource subscriptions": lambda r: "resources/subscribe" in r.methods,
    "cache hints": lambda r: bool(r.cacheable),
    "transport": lambda r: (r.session_header, r.era),
    "session": lambda r: (r.session_header, r.era),
    "the revision is named in": lambda r: (r.version_header, r.era),
    "messages that belong to no call": lambda r: (r.session_header, r.era),
    "when a client disconnects": lambda r: (r.session_header, r.disconnect),
    "resumable streams": lambda r: r.resumable,
    "polling": lambda r: r.sse_polling,
    "headers that repeat the body": lambda r: r.required_headers,
    "HTTP status of an error response": lambda r: (r.session_header, status_of(r, METHOD_NOT_FOUND)),
}
HEADINGS = ("", "over HTTP")


def test_the_columns_are_the_revisions() -> None:
    for heading in HEADINGS:
        assert ROWS[heading] == list(REVISIONS)


@pytest.mark.parametrize("row", FACTS)
def test_cells_are_the_same_exactly_where_the_revisions_agree(row: str) -> None:
    facts = [FACTS[row](revision) for revision in REVISIONS.values()]
    cells = ROWS[row]
    for here in range(len(facts)):
        for there in range(len(facts)):
            assert (cells[here] == cells[there]) == (facts[here] == facts[there]), (row, cells[here], cells[there])
    for cell, fact in zip(cells, facts, strict=True):
        if isinstance(fact, bool) and set(cells) <= {"yes", "–"}:
            assert (cell == "yes") == fact


def test_every_row_is_checked() -> None:
    rows = {row for row in ROWS if row not in HEADINGS and not re.fullmatch(r"-+", row)}
    assert rows == set(FACTS)
