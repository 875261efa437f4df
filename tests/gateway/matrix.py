"""The pass-through matrix: real clients and servers of every era with a gateway process between them.

`python -m tests.gateway.matrix` prints a table for each client, with a row for each feature and a column for each
server. A cell is `yes`, or says which revision or server does not have the feature, or names the refusal that the
client was given. Anything else is a failure, and the command ends with status 1. `--write` writes
`docs/gateway-matrix.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dovetail.protocol.revisions import REVISIONS
from tests.interop.peers import ENVELOPE, HANDSHAKE, PEERS, ROOT, everything_command, installed
from tests.support.http import Program

PROGRAMS = Path(__file__).parent / "programs"
PAGE = ROOT / "docs" / "gateway-matrix.md"
NEWEST_HANDSHAKE = HANDSHAKE[-1]

SINCE: dict[str, str] = {
    "structured results": "2025-06-18",
    "elicitation form": "2025-06-18",
    "elicitation URL": "2025-11-25",
    "tasks": "2025-11-25",
}
"""The first revision of a feature; the others are in all revisions."""

BLOCKS_SINCE = {"audio": "2025-03-26", "resource_link": "2025-06-18"}
"""The first revision of a type of content."""

INSTEAD = {"audio": r"resource \S*urn:dovetail:audio UklGRg==", "resource_link": "text .*://.*"}
"""What a client sees instead on older revisions: audio as an embedded resource, and links as text."""


def python(environment: str) -> list[str]:
    """The interpreter of a peer's environment."""
    return [installed(PEERS / environment / "bin" / "python"), "-W", "ignore"]


def node() -> list[str]:
    """Node, for a program that finds its packages in the folder that is its first argument."""
    return [installed(PEERS / "node" / "bin" / "node")]


# Clients -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FrontClient:
    """A client of the gateway: how it is started, and the revision that it speaks."""

    title: str
    revision: str
    command: Callable[[], list[str]]
    stdio: bool = False
    """True if the gateway is the client's own child process, with `--stdio`."""
    path: str = "/mcp"
    has_tasks: bool = False
    """True if the client library has tasks of its revision."""


def _typescript(mode: str) -> Callable[[], list[str]]:
    return lambda: [*node(), str(PROGRAMS / "typescript_probes.mjs"), str(PEERS / "node"), mode]


def _ours(revision: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(PROGRAMS / "ours_probes.py"), revision]


def _official(mode: str) -> Callable[[], list[str]]:
    return lambda: [*python("mcp"), str(PROGRAMS / "mcp_probes.py"), mode]


def _official_1() -> list[str]:
    return [*python("mcp1"), str(PROGRAMS / "mcp1_probes.py")]


CLIENTS: dict[str, FrontClient] = {
    "python1": FrontClient("Python SDK 1", NEWEST_HANDSHAKE, _official_1, has_tasks=True),
    "python2-legacy": FrontClient("Python SDK 2, legacy", NEWEST_HANDSHAKE, _official("legacy")),
    "python2-modern": FrontClient("Python SDK 2, modern", ENVELOPE, _official(ENVELOPE)),
    "typescript1": FrontClient("TypeScript SDK 1", NEWEST_HANDSHAKE, _typescript("v1"), has_tasks=True),
    "typescript2-legacy": FrontClient("TypeScript SDK 2, legacy", NEWEST_HANDSHAKE, _typescript("legacy")),
    "typescript2-modern": FrontClient("TypeScript SDK 2, modern", ENVELOPE, _typescript(ENVELOPE)),
    **{
        f"ours-{name}": FrontClient(f"Dovetail on {name}", name, _ours(name), has_tasks=name >= SINCE["tasks"])
        for name in REVISIONS
    },
    "python1-sse": FrontClient(
        "Python SDK 1 over HTTP+SSE",
        NEWEST_HANDSHAKE,
        _official_1,
        path="/sse",
        has_tasks=True,
    ),
    "python1-stdio": FrontClient(
        "Python SDK 1 over stdio",
        NEWEST_HANDSHAKE,
        _official_1,
        stdio=True,
        has_tasks=True,
    ),
    "python2-modern-stdio": FrontClient("Python SDK 2, modern, over stdio", ENVELOPE, _official(ENVELOPE), stdio=True),
}


# Servers -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BackServer:
    """A server behind the gateway: how it is started, and the revision that it agrees on with the gateway."""

    title: str
    revision: str
    command: Callable[[Path], list[str]]
    url: str | None = None
    """The path of its address, if it is reached over HTTP."""
    has_tasks: bool = False
    everything: bool = False
    """True for server-everything; the others have the same tools, whose results are known."""


def _official_server(environment: str, *mode: str) -> Callable[[Path], list[str]]:
    return lambda _: [*python(environment), str(PROGRAMS / "official_server.py"), *mode]


def _our_server(revision: str) -> Callable[[Path], list[str]]:
    return lambda _: [sys.executable, str(PROGRAMS / "ours_server.py"), revision]


def _everything(folder: Path) -> list[str]:
    return [sys.executable, str(PROGRAMS / "tap.py"), str(folder / "cancelled.log"), *everything_command()]


SERVERS: dict[str, BackServer] = {
    "everything": BackServer("server-everything", NEWEST_HANDSHAKE, _everything, everything=True, has_tasks=True),
    "py1": BackServer("Python SDK 1", NEWEST_HANDSHAKE, _official_server("mcp1")),
    "py2": BackServer("Python SDK 2", ENVELOPE, _official_server("mcp")),
    **{f"ours-{name}": BackServer(f"Dovetail {name}", name, _our_server(name), has_tasks=True) for name in REVISIONS},
    "http1": BackServer("Python SDK 1, HTTP", NEWEST_HANDSHAKE, _official_server("mcp1", "http"), url="/mcp"),
    "http2": BackServer("Python SDK 2, HTTP", ENVELOPE, _official_server("mcp", "http"), url="/mcp"),
    "sse1": BackServer("Python SDK 1, HTTP+SSE", NEWEST_HANDSHAKE, _official_server("mcp1", "sse"), url="/sse"),
}

# Features: what each server is asked, and what must come of it -------------------------------------------------------

NOTES_TOOLS = {
    *("add", "point", "blocks", "fail", "count", "hang", "hung", "grow", "talk", "touch"),
    *("ask_form", "ask_page", "ask_model", "ask_roots"),
}
EVERYTHING_TOOLS = {
    *("echo", "get-annotated-message", "get-env", "get-resource-links", "get-resource-reference"),
    *("get-structured-content", "get-sum", "get-tiny-image", "gzip-file-as-resource", "toggle-simulated-logging"),
    *("toggle-subscriber-updates", "trigger-long-running-operation", "get-roots-list", "trigger-sampling-request"),
    *("trigger-sampling-request-async", "simulate-research-query", "trigger-elicitation-request"),
    *("trigger-elicitation-request-async", "trigger-url-elicitation"),
}
"""All that it shows to a client that can elicit, sample and has roots; `test_matrix.py` compares it with the server."""
STATIC = "demo://resource/static/document/features.md"


def plan(server: BackServer, name: str) -> dict[str, Any]:
    """What a client called `name` is to ask of a server, by feature; the probes in `programs` know what it means."""
    if server.everything:
        toggles = ["toggle-subscriber-updates", {}], ["toggle-simulated-logging", {}]
        return {
            "tools": ["get-sum", {"a": 1, "b": 2}],
            "structured results": ["get-structured-content", {"location": "Chicago"}],
            "content types": [
                ["get-tiny-image", {}],
                ["get-resource-reference", {"resourceType": "Text", "resourceId": 1}],
                ["get-resource-links", {"count": 2}],
            ],
            "resources": [STATIC],
            "templates": ["demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/text/5"],
            "subscriptions": {"uri": STATIC, "touch": toggles[0], "after": toggles[0]},
            "prompts": ["args-prompt", {"city": "Rome"}],
            "completion": ["completable-prompt", "department", "S"],
            "progress": ["trigger-long-running-operation", {"duration": 0.3, "steps": 3}],
            "cancellation": {"tool": ["trigger-long-running-operation", {"duration": 20, "steps": 200}], "ask": None},
            # A call right after one that was cancelled may reach another process of this server, in the newest era: it
            # is then not known which of them logs already.
            "logging": {"tool": toggles[1], "heard": "level.message", "stopped": "Stopped", "after": toggles[1]},
            "list changes": {
                "tool": ["gzip-file-as-resource", {"name": f"{name}.gz", "data": "data:text/plain,a"}],
                "kind": "resources",
                "new": name,
            },
            "elicitation form": ["trigger-elicitation-request", {}],
            "elicitation URL": ["trigger-url-elicitation", {"url": "https://a.example/in"}],
            "sampling": ["trigger-sampling-request", {"prompt": "Hello"}],
            "roots": ["get-roots-list", {}],
            "tasks": ["simulate-research-query", {"topic": "tides"}],
            "errors": {"tool": ["get-sum", {"a": "one"}], "missing": "demo://gone"},
        }
    return {
        "tools": ["add", {"a": 1, "b": 2}],
        "structured results": ["point", {"x": 1}],
        "content types": [["blocks", {}]],
        "resources": ["note://static", "note://bytes"],
        "templates": ["note://{topic}/{page}", "note://soup/4"],
        "subscriptions": {"uri": "note://static", "touch": ["touch", {"uri": "note://static"}]},
        "prompts": ["review", {"code": "x = 1"}],
        "completion": ["review", "language", "p"],
        "progress": ["count", {"steps": 3}],
        "cancellation": {"tool": ["hang", {"name": name}], "ask": ["hung", {}]},
        "logging": {"tool": ["talk", {}], "heard": "told"},
        "list changes": {"tool": ["grow", {"name": name}], "kind": "tools", "new": f"grown_{name}"},
        "elicitation form": ["ask_form", {}],
        "elicitation URL": ["ask_page", {}],
        "sampling": ["ask_model", {}],
        "roots": ["ask_roots", {}],
        "tasks": ["render", {"scene": "sea"}] if server.has_tasks else ["add", {"a": 1, "b": 2}],
        "errors": {"tool": ["fail", {}], "missing": "note://gone"},
    }


FEATURES = tuple(plan(SERVERS["everything"], ""))

REFUSALS: list[tuple[str, Callable[[str, FrontClient, BackServer], bool], str]] = [
    (
        "tasks",
        lambda said, client, server: not server.has_tasks and "does not run as a task" in said,
        "the tool does not run as a task",
    ),
    (
        "subscriptions",
        lambda said, client, server: (
            server.title.startswith("Python SDK 1") and re.search("subscri|does not tell of changes", said) is not None
        ),
        "the server offers no subscriptions",
    ),
]
"""The refusals that are expected: the feature, whether what the client was told is one, and its name in the table."""


class Setting(NamedTuple):
    """What a cell is about."""

    feature: str
    client: FrontClient
    server: BackServer

    @property
    def revision(self) -> str:
        """The older revision of the two."""
        return min(self.client.revision, self.server.revision)


class Cell(NamedTuple):
    """What a cell of the table says."""

    word: str
    """`yes`, `not in REVISION`, `not in this server`, `refused` or `FAILED`."""
    detail: str = ""

    @property
    def failed(self) -> bool:
        return self.word == "FAILED"


def judge(setting: Setting, seen: Mapping[str, Any]) -> Cell:
    """The cell for what a client has seen of one feature of one server."""
    feature, client, server = setting
    if "silent" in seen:
        return Cell("FAILED", f"silent loss: {seen['silent']}")
    since = SINCE.get(feature, "")
    if "refused" in seen:
        said = str(seen["refused"])
        if said.endswith("Internal error"):
            return Cell("FAILED", f"a refusal without a reason: {said}")
        if setting.revision < since:
            return Cell(f"not in {setting.revision}", said)
        for of, matches, name in REFUSALS:
            if of == feature and matches(said, client, server):
                return Cell("refused", name)
        return Cell("FAILED", f"unexpected refusal: {said}")
    value = seen["value"]
    if setting.revision < since:
        # It cannot be there. What matters is that the caller can see that.
        as_text = feature == "structured results" and _has_text(value, server)
        waited_for = feature == "tasks" and not _check_tasks(setting, value).failed
        named = value.get("error") and not _text(value).endswith("Internal error")
        visible = named or as_text or waited_for
        return Cell(f"not in {setting.revision}") if visible else Cell("FAILED", f"silent loss: {value}")
    return _CHECKS[feature](setting, value)


def _is(expected: bool, value: Any) -> Cell:
    return Cell("yes") if expected else Cell("FAILED", f"saw {value!r}")


def _text(value: Mapping[str, Any]) -> str:
    return " ".join(value["blocks"])


def _has_text(value: Mapping[str, Any], server: BackServer) -> bool:
    """The text of a structured result, which revisions without such results show."""
    found = re.search(r"\{.*\}", _text(value), re.DOTALL)
    return found is not None and json.loads(found[0]) == _structured(server)


def _structured(server: BackServer) -> Any:
    weather = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
    return weather if server.everything else {"x": 1, "y": 0.5}


def _everything_tools(setting: Setting) -> set[str]:
    """The tools of server-everything for a client that can be asked all that its revision has."""
    hidden = {"trigger-url-elicitation"} if setting.client.revision < SINCE["elicitation URL"] else set[str]()
    if setting.client.revision < SINCE["elicitation form"]:
        hidden |= {"trigger-elicitation-request", "trigger-elicitation-request-async"}
    return EVERYTHING_TOOLS - hidden


def _check_tools(setting: Setting, value: Any) -> Cell:
    server = setting.server
    missing = (_everything_tools(setting) if server.everything else NOTES_TOOLS) - set(value["listed"])
    if missing:
        return Cell("FAILED", f"tools are missing: {', '.join(sorted(missing))}")
    return _is(_text(value) == ("text The sum of 1 and 2 is 3." if server.everything else "text 3"), value)


def _check_structured(setting: Setting, value: Any) -> Cell:
    return _is(value.get("structured") == _structured(setting.server) and _has_text(value, setting.server), value)


def _check_content(setting: Setting, value: Any) -> Cell:
    """Each block as it is, or in other words where the older revision has no such block."""
    expected = (
        r"text .*|image image/png|text .*|text .*|resource \S*demo://resource/dynamic/text/1 Resource 1.*|text .*|"
        r"text .*|resource_link \S*demo://resource/dynamic/blob/1|resource_link \S*demo://resource/dynamic/text/2"
        if setting.server.everything
        else r"text words|image image/png|audio audio/wav|resource_link \S*note://static|"
        r"resource \S*note://inside inside|resource \S*note://bytes AAEC"
    ).split("|")
    if len(value["blocks"]) != len(expected):
        return Cell("FAILED", f"saw {value!r}")
    instead: dict[str, None] = {}
    for pattern, block in zip(expected, value["blocks"], strict=True):
        kind = pattern.split(" ")[0]
        if setting.revision < BLOCKS_SINCE.get(kind, "") and re.fullmatch(INSTEAD[kind], block, re.DOTALL):
            instead[kind] = None
        elif re.fullmatch(pattern, block, re.DOTALL) is None:
            return Cell("FAILED", f"saw {block!r}, expected {pattern!r}")
    if "resource_link" not in instead:
        behind = value["behind links"]
        read = len(behind) == 2 if setting.server.everything else [one.split(" ", 1)[1] for one in behind] == ["# note"]
        if not read:
            return Cell("FAILED", f"the links lead to {behind!r}")
    if instead:
        words = {"audio": "audio as an embedded resource", "resource_link": "links as text"}
        return Cell(
            f"not in {setting.revision}", f"{', '.join(words[kind] for kind in instead)}; all others as they are"
        )
    return Cell("yes")


def _check_resources(setting: Setting, value: Any) -> Cell:
    bare = [item.split(" ", 1)[1] for item in value]
    if setting.server.everything:
        return _is(len(bare) == 1 and bare[0].startswith("# "), value)
    return _is(bare == ["# note", "AAEC"], value)


def _check_templates(setting: Setting, value: Any) -> Cell:
    bare = value[0].split(" ", 1)[1]
    return _is(bare.startswith("Resource 5:") if setting.server.everything else bare == "soup, page 4", value)


def _check_prompts(setting: Setting, value: Any) -> Cell:
    text = "text What's weather in Rome?" if setting.server.everything else "text Review this python: x = 1"
    return _is(value == {"listed": True, "messages": [text]}, value)


def _check_completion(setting: Setting, value: Any) -> Cell:
    return _is(value == (["Sales", "Support"] if setting.server.everything else ["pascal", "perl", "python"]), value)


def _check_list_changes(setting: Setting, value: Any) -> Cell:
    return _is(len(value) == 1, value)


def _check_tasks(setting: Setting, value: Any) -> Cell:
    client, server, plain = setting.client, setting.server, value["status"] == "plain"
    words = "Research" if server.everything else "movie of sea" if server.has_tasks else "text 3"
    if value["error"] or not (plain or value["status"] == "completed") or words not in _text(value):
        return Cell("FAILED", f"saw {value!r}")
    if not server.has_tasks:
        return Cell("not in this server", "the call was answered as an ordinary one") if plain else _is(False, value)
    if plain and client.has_tasks and setting.revision >= SINCE["tasks"]:
        return Cell("FAILED", f"the call was no task: {value!r}")
    return Cell("yes", "the gateway has waited for the task, as the client has none") if plain else Cell("yes")


def _check_errors(setting: Setting, value: Any) -> Cell:
    failed = value["failed"]
    words = "Invalid" if setting.server.everything else "no such luck"
    if not failed["error"] or words not in _text(failed):
        return Cell("FAILED", f"the failure of a tool is {failed!r}")
    expected = REVISIONS[setting.client.revision].not_found_code
    # The servers of others say with -32602, or with 0, that they have no such resource.
    if value["unknown tool"] != -32602 or value["missing resource"] not in (expected, -32602, 0):
        return Cell("FAILED", f"saw {value!r}")
    return Cell("yes")


def _answered(note: str, everything: str, asked: str = "") -> Callable[[Setting, Any], Cell]:
    """The check of a tool that asks: the client was asked, and the tool has got its answer."""

    def check(setting: Setting, value: Any) -> Cell:
        pattern = everything if setting.server.everything else note
        heard = not asked or any(re.search(asked, one) for one in value["asked"])
        return _is(not value["error"] and heard and re.search(pattern, _text(value)) is not None, value)

    return check


_CHECKS: dict[str, Callable[[Setting, Any], Cell]] = {
    "tools": _check_tools,
    "structured results": _check_structured,
    "content types": _check_content,
    "resources": _check_resources,
    "templates": _check_templates,
    "subscriptions": lambda setting, value: _is(value == "heard", value),
    "prompts": _check_prompts,
    "completion": _check_completion,
    "progress": lambda setting, value: _is(value == [[1, 3], [2, 3], [3, 3]], value),
    "cancellation": lambda setting, value: _is(value == "given up", value),
    "logging": lambda setting, value: _is(value == "heard", value),
    "list changes": _check_list_changes,
    "elicitation form": _answered("accept Ann", "Ann", "Who|Please provide"),
    "elicitation URL": _answered("accept", "completed the URL elicitation", "Sign in|open the link"),
    "sampling": _answered("text Hi", '"Hi"|Hi', "sampling"),
    # server-everything has asked for the roots when it was connected to, and answers what it was told then.
    "roots": _answered("file:///srv", "file:///srv"),
    "tasks": _check_tasks,
    "errors": _check_errors,
}

# Runs ----------------------------------------------------------------------------------------------------------------


@dataclass
class Gateway:
    """A gateway for some of the servers, as a process that serves HTTP, or as a command for a client over stdio."""

    folder: Path
    command: list[str]
    environment: dict[str, str]
    url: str = ""
    programs: list[Program] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def cancellations(self) -> int:
        """How many cancellations have reached server-everything."""
        log = self.folder / "cancelled.log"
        return len(log.read_bytes().splitlines()) if log.exists() else 0

    def log(self) -> str:
        """What the gateway has written to stderr."""
        path = self.folder / "gateway.log"
        return path.read_text(errors="replace") if path.exists() else ""


@contextlib.contextmanager
def gateway(servers: Iterable[str], *, http: bool = True) -> Iterator[Gateway]:
    """`dovetail gateway FILE --trust` for these servers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entries: dict[str, Any] = {}
        programs: list[Program] = []
        try:
            for key in servers:
                server = SERVERS[key]
                words = server.command(folder)
                if server.url is None:
                    entries[key] = {"command": words[0], "args": words[1:]}
                else:
                    programs.append(Program(words))
                    entries[key] = {"url": programs[-1].url + server.url}
                # The machine may be busy with many servers that start at once.
                entries[key]["gateway"] = {"connectSeconds": 60, "listSeconds": 60}
            file = folder / "mcp.json"
            file.write_text(json.dumps({"mcpServers": entries}))
            environment = {**os.environ, "XDG_CONFIG_HOME": name, "XDG_CACHE_HOME": name}
            command = [str(Path(sys.executable).parent / "dovetail"), "gateway", str(file), "--trust"]
            running = Gateway(folder, command, environment, programs=programs)
            if http:
                _start(running)
            try:
                yield running
            finally:
                _stop(running)
        finally:
            for program in programs:
                program.close()


def _start(running: Gateway) -> None:
    log = (running.folder / "gateway.log").open("wb")
    running.process = subprocess.Popen(
        [*running.command, "--port", "0"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=running.environment,
    )
    log.close()
    deadline = time.monotonic() + 60
    while not (found := re.search(r"serves MCP at (http\S+)/mcp", running.log())):
        if running.process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"the gateway has not started:\n{running.log()}")
        time.sleep(0.05)
    running.url = found[1]


def _stop(running: Gateway) -> None:
    if running.process is not None:
        running.process.send_signal(signal.SIGTERM)
        try:
            running.process.wait(20)
        except subprocess.TimeoutExpired:
            running.process.kill()
            running.process.wait()


def probe(running: Gateway, name: str, servers: Sequence[str], features: Sequence[str] = FEATURES) -> dict[str, Any]:
    """What a client sees of these servers through a gateway."""
    client = CLIENTS[name]
    command = client.command()
    command += [*running.command, "--stdio"] if client.stdio else [running.url + client.path]
    plans = {key: plan(SERVERS[key], name) for key in servers}
    given = {"name": name, "servers": {key: {one: plans[key][one] for one in features} for key in servers}}
    finished = subprocess.run(
        command,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=600,
        env=running.environment,
        check=False,
    )
    if finished.returncode:
        raise AssertionError(f"{name} failed:\n{finished.stderr[-4000:]}\n{running.log()[-2000:]}")
    seen: dict[str, Any] = json.loads(finished.stdout)
    return seen


Table = dict[tuple[str, str, str], Cell]
"""The cells by client, server and feature."""


def run_client(
    running: Gateway, name: str, servers: Sequence[str], features: Sequence[str] = FEATURES
) -> dict[tuple[str, str, str], Cell]:
    """The cells of one client."""
    client = CLIENTS[name]
    before = running.cancellations
    seen = probe(running, name, servers, features)
    cells: Table = {}
    for key in servers:
        for feature in features:
            setting = Setting(feature, client, SERVERS[key])
            cells[name, key, feature] = judge(setting, seen["servers"][key][feature])
    if "everything" in servers and "cancellation" in features and running.cancellations <= before:
        # This server does not show it itself, so that what it was sent is looked at.
        cells[name, "everything", "cancellation"] = Cell("FAILED", "the cancellation did not reach the server")
    if seen["revision"] != client.revision:
        raise AssertionError(f"{name} has agreed on {seen['revision']}, and not on {client.revision}")
    return cells


def run(clients: Sequence[str], servers: Sequence[str], say: Callable[[str], None] = print) -> Table:
    """All cells of these clients and servers."""
    cells: Table = {}
    with gateway(servers) as running:
        for name in clients:
            began = time.monotonic()
            if CLIENTS[name].stdio:
                with gateway(servers, http=False) as own:
                    found = run_client(own, name, servers)
            else:
                found = run_client(running, name, servers)
            cells |= found
            say(f"{CLIENTS[name].title}: {_summary(found.values())} ({time.monotonic() - began:.0f} s)")
    return cells


def _summary(cells: Iterable[Cell]) -> str:
    counts = {"yes": 0, "not in the revision": 0, "not in this server": 0, "refused": 0, "FAILED": 0}
    for cell in cells:
        counts[cell.word if cell.word in counts else "not in the revision"] += 1
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


# Output --------------------------------------------------------------------------------------------------------------


def tables(cells: Table, clients: Sequence[str], servers: Sequence[str]) -> list[str]:
    """The tables as Markdown: a summary, one for each client, and notes on what is not `yes`."""
    lines = [
        "| client | " + " | ".join(SERVERS[key].title for key in servers) + " |",
        "|---" * (len(servers) + 1) + "|",
    ]
    for name in clients:
        row = [_short(cells[name, key, feature] for feature in FEATURES) for key in servers]
        lines.append(f"| {CLIENTS[name].title} | " + " | ".join(row) + " |")
    notes: dict[str, int] = {}
    for name in clients:
        lines += ["", f"## {CLIENTS[name].title}", ""]
        lines.append("| feature | " + " | ".join(SERVERS[key].title for key in servers) + " |")
        lines.append("|---" * (len(servers) + 1) + "|")
        for feature in FEATURES:
            row = [_shown(cells[name, key, feature], notes) for key in servers]
            lines.append(f"| {feature} | " + " | ".join(row) + " |")
    lines += ["", "## Notes", ""]
    lines += [f"{number}. {note}" for note, number in notes.items()]
    return lines


def _short(cells: Iterable[Cell]) -> str:
    words = [cell.word for cell in cells]
    parts = [f"{words.count('yes')} yes"]
    parts += [f"{words.count(word)} {word}" for word in sorted({word for word in words if word != "yes"})]
    return ", ".join(parts)


def _shown(cell: Cell, notes: dict[str, int]) -> str:
    if cell.word == "refused":
        return f"refused: {cell.detail}"
    if cell.detail and (cell.failed or cell.word == "yes" or " as " in cell.detail):
        detail = re.sub(r"\s+", " ", cell.detail)[:300].replace("|", "\\|")
        return f"{cell.word} ({notes.setdefault(detail, len(notes) + 1)})"
    return cell.word


HEAD = """# The pass-through matrix of the gateway

This page is generated: `make gateway-matrix MATRIX=--write` runs the clients and servers again and writes it.

Each client talks to a `dovetail gateway` process, which talks to each server. The clients and servers are those of the
official SDKs in Python and TypeScript, npm's server-everything, and ours. A cell says:

- `yes`: the client saw what the server did, and the server saw what the client did.
- `not in REVISION`: the older revision of the two sides does not have it. The client gets an error that says so; or,
  for structured results, audio and links, the same in another form; or, for tasks, the result when the task has ended.
- `not in this server`: the server has no tasks, and the call was answered as an ordinary one.
- `refused`: the client asked, and was given this error; or, for subscriptions in the newest era, an acknowledgement
  without the resource.

No cell is a silent loss: the run fails if a client gets no answer, or another one than the server gave.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.matrix", description=__doc__)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS), metavar="CLIENT")
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=list(SERVERS), metavar="SERVER")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}; only for all of them")
    given = parser.parse_args()
    whole = (given.clients, given.servers) == (list(CLIENTS), list(SERVERS))
    if given.write and not whole:
        parser.error("--write is for the whole matrix: leave out --clients and --servers")
    cells = run(given.clients, given.servers, lambda line: print(line, file=sys.stderr, flush=True))
    lines = tables(cells, given.clients, given.servers)
    print("\n".join(lines))
    failed = {key: cell for key, cell in cells.items() if cell.failed}
    for (name, key, feature), cell in failed.items():
        print(f"FAILED: {name} / {key} / {feature}: {cell.detail[:1000]}", file=sys.stderr)
    if given.write and not failed:
        PAGE.write_text("\n".join([HEAD, *lines, ""]), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
