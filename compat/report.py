"""Writes docs/compatibility.md from the results of all clients and servers."""

from collections import Counter
from collections.abc import Iterable, Sequence

from .clients import CLIENTS
from .entries import Expected, ThirdPartyClient, ThirdPartyServer
from .install import ROOT
from .results import Result, covers, load
from .servers import ENDPOINTS, SERVERS

PAGE = ROOT / "docs" / "compatibility.md"
HEAD = """\
# Compatibility

`make compat` installs other people's clients and servers by name and version, runs the same tour against each, and
writes this page. A failure that is not in its tables makes it fail, and so does an expected failure that no longer
occurs. Six of the clients are part of `make test`.

"""
CLIENTS_HEAD = """\
## Clients

Each client meets `compat/server.py`: 27 tools, 3 resources, 2 templates and 2 prompts, over stdio, Streamable HTTP and
HTTP+SSE. It lists and calls everything, and errors must be told as errors. Where the client has them, progress, log
messages, cancellation, elicitation, sampling, roots, completion and notifications of changes are checked, too. The
numbers are checks passed and all checks, in all transports and modes together. What fails is the client's own
limitation.

| client | transports | revision | checks | what fails |
|---|---|---|---|---|
"""
SERVERS_HEAD = """\
## Servers over stdio

Our client starts each server with answers for elicitation, sampling and roots. It lists everything, reads the first
resource, gets the first prompt that needs no arguments, and makes safe calls. The lists are tools / prompts / resources
/ templates, "start" is the time until the connection is ready, on a busy machine, and "stderr" is the number of lines
that the user of a client sees.

| server | revision | lists | start | stderr | checks | what fails |
|---|---|---|---|---|---|---|
"""
ENDPOINTS_HEAD = """\
## Servers over HTTP and HTTP+SSE

| server | transport | revision | lists | checks | what fails |
|---|---|---|---|---|---|
"""


def write(inspection: str) -> bool:
    """Write the page, if there is a result of every client and every server; says whether it was written."""
    clients = [(entry, load("clients", entry.slug)) for entry in CLIENTS]
    servers = [(entry, load("servers", entry.slug)) for entry in SERVERS]
    endpoints = [(entry, load("servers", entry.slug)) for entry in ENDPOINTS]
    if any(result is None for _, result in (*clients, *servers, *endpoints)):
        return False
    parts = [HEAD, summary(clients, servers, endpoints), inspection, "\n"]
    parts += [CLIENTS_HEAD, *(_client_row(entry, result) for entry, result in clients if result), "\n"]
    parts += [SERVERS_HEAD, *(_server_row(entry, result) for entry, result in servers if result), "\n"]
    parts += [ENDPOINTS_HEAD, *(_endpoint_row(entry, result) for entry, result in endpoints if result)]
    PAGE.write_text("".join(parts))
    return True


def summary(*groups: Sequence[tuple[ThirdPartyClient | ThirdPartyServer, Result | None]]) -> str:
    """A table with one line for each group: how many work, and how many cannot start by themselves."""
    lines = ["| | tried | work | cannot start by themselves |\n|---|---|---|---|\n"]
    for title, group in zip(("clients", "servers over stdio", "servers over HTTP and HTTP+SSE"), groups, strict=True):
        started = sum(1 for _, result in group if result and connects(result))
        lines.append(f"| {title} | {len(group)} | {started} | {len(group) - started} |\n")
    revisions = Counter(revision for group in groups for _, result in group if result for revision in result.revisions)
    met = ", ".join(f"{revision} ({number})" for revision, number in sorted(revisions.items()))
    return "".join([*lines, f"\nRevisions met: {met}.\n"])


def connects(result: Result) -> bool:
    """Whether there was a connection on every transport."""
    return not result.problem and not any(visit.checks.get("connect") for visit in result.visits)


def _client_row(client: ThirdPartyClient, result: Result) -> str:
    passed, total = result.counts
    transports = ", ".join(client.transports)
    reasons = _reasons(result, client.expected)
    what = "; ".join(filter(None, [*reasons, client.notes]))
    revisions = ", ".join(result.revisions) or "–"
    return f"| {_name(client.name, client.version)} | {transports} | {revisions} | {passed}/{total} | {what} |\n"


def _server_row(server: ThirdPartyServer, result: Result) -> str:
    passed, total = result.counts
    facts = result.visits[0].facts if result.visits else {}
    revisions = ", ".join(result.revisions) or "–"
    shown = "–" if not connects(result) else str(facts.get("stderr lines", "–"))
    start = f"{facts['start']} s" if "start" in facts else "–"
    name = _name(server.name, server.version)
    cells = (name, revisions, _lists(facts), start, shown, f"{passed}/{total}", _troubles(server, result))
    return f"| {' | '.join(cells)} |\n"


def _endpoint_row(server: ThirdPartyServer, result: Result) -> str:
    passed, total = result.counts
    facts = result.visits[0].facts if result.visits else {}
    transport = "HTTP+SSE" if server.url.endswith("/sse") else "HTTP"
    revisions = ", ".join(result.revisions) or "–"
    name = _name(server.name, server.version)
    return (
        f"| {name} | {transport} | {revisions} | {_lists(facts)} | {passed}/{total} | {_troubles(server, result)} |\n"
    )


def _troubles(server: ThirdPartyServer, result: Result) -> str:
    if server.unavailable and not connects(result):
        return f"not started: {server.unavailable}"
    return "; ".join(_reasons(result, server.expected))


def _reasons(result: Result, expected: Iterable[Expected]) -> list[str]:
    """The reasons of the failures, each once; an unexpected one is shown with its error."""
    entries = list(expected)
    reasons = [f"**{result.problem}**"] if result.problem else []
    for visit, check, error in result.failures():
        matched = [entry.reason for entry in entries if covers(entry, visit, check)]
        reasons += matched[:1] or [f"**{check} over {visit.transport}: {error[:150]}**"]
    return [text.replace("|", "\\|") for text in dict.fromkeys(reasons)]


def _lists(facts: dict[str, object]) -> str:
    lists = facts.get("lists")
    return (
        " / ".join("error" if number is None else str(number) for number in lists) if isinstance(lists, list) else "–"
    )


def _name(name: str, version: str) -> str:
    return f"{name} {version}"
