"""Draw the diagrams of docs/architecture.md as SVG files.

`python docs/diagrams/generate.py` writes the files beside this script. The packages come from the import contract in
pyproject.toml, and the state machines from the modules of src/dovetail that define `State`, `Event` and `TRANSITIONS`.
tests/docs/test_diagrams.py fails when a committed file differs from what this script draws.
"""

import enum
import importlib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
SOURCE = ROOT / "src" / "dovetail"

PURPOSES = {
    "cli": "the dovetail command",
    "gateway": "many servers behind one endpoint",
    "host": "many servers, approvals, chat",
    "testing": "fixtures, transcripts, snapshots",
    "policy": "rules, approvals, lockfile, audit log",
    "server": "authoring and serving",
    "client": "connecting and calling",
    "middleware": "ready-made middleware",
    "runtime": "tasks, deadlines, connections",
    "config": "configuration files: read, edit",
    "transports": "stdio, sockets, HTTP, WebSocket",
    "auth": "OAuth rules",
    "storage": "stores of bytes",
    "userdata": "files of the user",
    "protocol": "the rules; one file per revision",
    "schema": "JSON Schema, forms",
    "text": "sanitize, redact, rank",
    "uri_template": "RFC 6570",
    "types": "values that handlers and callers see",
    "wire": "bytes to JSON-RPC messages and back",
}
"""One line for each package; a package of src/dovetail without one cannot be drawn."""

HTTP, STREAM, BOTH = "HTTP", "stream", "both"

STEPS = [
    (1, HTTP, "server/http/asgi_app", "one request arrives, within bounds"),
    (1, STREAM, "transports/*", "one message arrives, within bounds"),
    (2, BOTH, "wire/codec", "decode: the only parse"),
    (3, HTTP, "protocol/admission", "terms by headers, envelope, session"),
    (3, STREAM, "protocol/lifecycle", "terms by handshake or envelope"),
    (4, HTTP, "server/http/respond", "JSON or event stream, watch for a disconnect"),
    (4, STREAM, "runtime/connection", "one task for each call"),
    (5, BOTH, "runtime/serve", "scope, deadline, middleware, errors"),
    (6, BOTH, "server/dispatch", "table of methods: plain functions"),
    (7, BOTH, "server/features/tools", "invoke: bind the arguments, call the handler"),
    (8, BOTH, "wire/codec", "Revision.emit gives the shape, encode dumps once"),
]
"""The path of a request: number of the step, transport, module, what happens there."""

OBJECTS = {
    "MessageSink": (0, 0, "channel or HTTP response"),
    "Connection": (0, 1, "one client on a channel"),
    "Peer": (0, 2, "ids, cancellation; no I/O"),
    "Session": (1, 0, "log level, subscriptions"),
    "ServerCall": (1, 1, "one request"),
    "Terms": (1, 2, "revision, client, principal"),
    "Revision": (1, 3, "methods, fields, flags"),
    "Context": (2, 0, "what a handler sees"),
    "Invocation": (2, 1, "one run of a handler"),
    "SuspendableCall": (2, 2, "rounds (envelope era)"),
    "Server": (3, 0, "what an author sees"),
    "ServerCore": (3, 1, "what the framework needs"),
    "Registry": (3, 2, "tools, resources, prompts"),
    "RegisteredTool": (3, 3, "schema and handler"),
}
"""The objects of a call: column, row, purpose."""

RELATIONS = [
    ("Connection", "MessageSink", "sends"),
    ("Connection", "Peer", "drives"),
    ("Connection", "ServerCall", "makes"),
    ("ServerCall", "MessageSink", "answers through"),
    ("ServerCall", "Session", "knows"),
    ("ServerCall", "Terms", "holds"),
    ("Terms", "Revision", "names"),
    ("Context", "Invocation", "wraps"),
    ("Invocation", "ServerCall", "serves"),
    ("Invocation", "SuspendableCall", "may have"),
    ("Invocation", "ServerCore", "uses"),
    ("Server", "ServerCore", "wraps"),
    ("ServerCore", "Registry", "has"),
    ("Registry", "RegisteredTool", "has"),
]

STYLE = """
svg { background: #ffffff; color-scheme: light dark; }
text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1c2733; }
.small { font-size: 11px; fill: #4a5866; }
.strong { font-weight: 600; }
.box { fill: #eef3f8; stroke: #57708a; stroke-width: 1.2; }
.pure { fill: #e5f4e8; stroke: #4b8a5c; }
.line { fill: none; stroke: #57708a; stroke-width: 1.3; }
.head { fill: #57708a; }
.page { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  svg { background: #14191f; }
  text { fill: #e4eaf0; }
  .small { fill: #a9b6c2; }
  .box { fill: #22303d; stroke: #86a3bf; }
  .pure { fill: #1f3527; stroke: #7fbf92; }
  .line { stroke: #86a3bf; }
  .head { fill: #86a3bf; }
  .page { fill: #14191f; }
}
"""

WIDE, NARROW = 7.9, 6.7
"""Widths of a character at 13 and at 11 pixels."""

LINE = 14


class Canvas:
    """Shapes of one SVG file; grows with what is drawn."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._shapes: list[str] = []
        self._width = self._height = 0.0

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        """Draw a rectangle with round corners."""
        self._shapes.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"/>')
        self._grow(x + width, y + height)

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> None:
        """Draw one line of text; x is its beginning, its middle or its end."""
        css = f' class="{kind}"' if kind else ""
        self._shapes.append(f'<text{css} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>')
        size = len(text) * (NARROW if "small" in kind else WIDE)
        self._grow(x + {"start": size, "middle": size / 2, "end": 0}[anchor], y + 6)

    def arrow(self, points: Sequence[tuple[float, float]]) -> None:
        """Draw a line through points, with an arrow head at the last."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._shapes.append(f'<polyline class="line" points="{path}" marker-end="url(#head)"/>')
        for x, y in points:
            self._grow(x, y)

    def _grow(self, x: float, y: float) -> None:
        self._width, self._height = max(self._width, x), max(self._height, y)

    def svg(self) -> str:
        """Return the file."""
        width, height = self._width + 16, self._height + 16
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
                f'width="{width:g}" height="{height:g}" role="img" aria-label="{escape(self._title)}">',
                f"<title>{escape(self._title)}</title>",
                f"<style>{STYLE}</style>",
                '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
                'orient="auto-start-reverse"><path class="head" d="M0,0 L8,4 L0,8 z"/></marker></defs>',
                f'<rect class="page" width="{width:g}" height="{height:g}"/>',
                *self._shapes,
                "</svg>\n",
            ]
        )


def contracts() -> list[dict[str, Any]]:
    """Return the import contracts of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def layers() -> list[list[str]]:
    """Return the packages in their import order, highest first; places kept for later packages are left out."""
    order = next(contract["layers"] for contract in contracts() if contract.get("containers") == ["dovetail"])
    rows = [[name.strip(" ()") for name in row.split("|")] for row in order]
    built = [[name for name in row if (SOURCE / name / "__init__.py").exists()] for row in rows]
    return [row for row in built if row]


def packages_without_io() -> set[str]:
    """Return the packages that may import no event loop, socket, clock, log or HTTP library."""
    found = next(each for each in contracts() if "asyncio" in each.get("forbidden_modules", ()))
    return {name.split(".")[1] for name in found["source_modules"]}


def draw_packages() -> str:
    """Draw the packages by layer: each imports only what is below it."""
    canvas = Canvas("Packages of Dovetail: each imports only from the rows below it")
    pure = packages_without_io()
    width, height, gap = 268, 46, 16
    full = 3 * width + 2 * gap
    for number, row in enumerate(layers()):
        y = 16 + number * (height + gap)
        left = 16 + (full - len(row) * width - (len(row) - 1) * gap) / 2
        for place, name in enumerate(row):
            x = left + place * (width + gap)
            canvas.box(x, y, width, height, "box pure" if name in pure else "box")
            canvas.text(x + width / 2, y + 19, name, "strong")
            canvas.text(x + width / 2, y + 36, PURPOSES[name], "small")
    y = 16 + len(layers()) * (height + gap)
    canvas.box(16, y + 2, 14, 14, "box pure")
    canvas.text(38, y + 13, "without I/O: no event loop, socket, clock, log or HTTP library", "small", "start")
    return canvas.svg()


def draw_request_path() -> str:
    """Draw the path of a request: eight steps, the same for every transport and era."""
    canvas = Canvas("The path of a request")
    half, gap, height, down = 330, 20, 44, 24
    canvas.text(52 + half / 2, 22, "HTTP", "strong")
    canvas.text(52 + half + gap + half / 2, 22, "stdio, sockets, WebSocket, HTTP+SSE", "strong")
    last = max(number for number, *_ in STEPS)
    for number, transport, module, purpose in STEPS:
        y = 34 + (number - 1) * (height + down)
        x = 52 + (half + gap if transport == STREAM else 0)
        width = 2 * half + gap if transport == BOTH else half
        canvas.box(x, y, width, height)
        canvas.text(x + width / 2, y + 18, module, "strong")
        canvas.text(x + width / 2, y + 35, purpose, "small")
        canvas.text(26, y + 27, str(number), "strong")
        if number < last:
            for middle in (52 + half / 2, 52 + half + gap + half / 2):
                if x <= middle <= x + width:
                    canvas.arrow([(middle, y + height), (middle, y + height + down)])
    return canvas.svg()


def draw_objects() -> str:
    """Draw the objects of a call and how they refer to each other."""
    canvas = Canvas("The objects of a call")
    width = 16 + NARROW * max(len(purpose) for *_, purpose in OBJECTS.values())
    height, across, down = 46, 64, 54

    def corner(name: str) -> tuple[float, float]:
        column, row, _ = OBJECTS[name]
        return 16 + column * (width + across), 16 + row * (height + down)

    for name, (_, _, purpose) in OBJECTS.items():
        x, y = corner(name)
        canvas.box(x, y, width, height)
        canvas.text(x + width / 2, y + 19, name, "strong")
        canvas.text(x + width / 2, y + 36, purpose, "small")
    for source, target, label in RELATIONS:
        (x1, y1), (x2, y2) = corner(source), corner(target)
        if x1 == x2:
            start, end = (y1, y2 + height) if y1 > y2 else (y1 + height, y2)
            canvas.arrow([(x1 + width / 2, start), (x2 + width / 2, end)])
            canvas.text(x1 + width / 2 + 8, (start + end) / 2 + 4, label, "small", "start")
        elif y1 == y2:
            start, end = (x1 + width, x2) if x1 < x2 else (x1, x2 + width)
            canvas.arrow([(start, y1 + height / 2), (end, y2 + height / 2)])
            canvas.text((start + end) / 2, y1 + height / 2 - 7, label, "small")
        else:  # between the rows, and into the nearer corner
            middle = y2 + height + 0.6 * down
            start, end = x1 + 28, x2 + width - 28
            canvas.arrow([(start, y1), (start, middle), (end, middle), (end, y2 + height)])
            canvas.text((start + end) / 2, middle - 6, label, "small")
    return canvas.svg()


@dataclass(frozen=True)
class Machine:
    """A state machine as it is drawn: its states in order, and the events that lead from one to another."""

    title: str
    states: Sequence[str]
    edges: Mapping[tuple[str, str], Sequence[str]]
    meanings: Mapping[str, str]
    """A sentence for each state, from the values of the enum."""
    legend: Mapping[str, str]
    """The same for each event that leads somewhere."""
    anywhere: Mapping[str, str]
    """Events that lead to the same state from every state; they are listed instead of drawn."""


def machine_modules() -> list[str]:
    """Return the modules of src/dovetail that define a table of transitions."""
    pattern = re.compile(r"^TRANSITIONS\b", re.MULTILINE)
    found = [path for path in sorted(SOURCE.rglob("*.py")) if pattern.search(path.read_text())]
    return ["dovetail." + ".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in found]


def machine_of(module: ModuleType) -> Machine:
    """Read `State`, `Event` and `TRANSITIONS` of a module.

    `State` is an enum, or a Literal where the states are words of the wire. The table is `{(state, event): state}` or
    `{state: {event: state}}`. A value may also be a tuple that has the next state in it.
    """
    members: list[Any] = list(get_args(module.State) or module.State)
    sources: dict[tuple[str, str], list[str]] = {}
    for source, event, target in _transitions(module.TRANSITIONS, members):
        sources.setdefault((_words(event), _words(target)), []).append(_words(source))
    anywhere = {event: target for (event, target), found in sources.items() if len(found) == len(members)}
    edges: dict[tuple[str, str], list[str]] = {}
    for (event, target), found in sources.items():
        for source in found if event not in anywhere else ():
            edges.setdefault((source, target), []).append(event)
    title = (module.__doc__ or module.__name__).strip().splitlines()[0].split(". ")[0].rstrip(".")
    used = {event for event, _ in sources}
    legend = {event: text for event, text in _meanings(module.Event).items() if event in used}
    states = [_words(state) for state in members]
    return Machine(title, states, edges, _meanings(members), legend, anywhere)


def _meanings(members: Iterable[Any]) -> dict[str, str]:
    enums = [member for member in members if isinstance(member, enum.Enum)]
    return {_words(member): member.value for member in enums if isinstance(member.value, str)}


def _transitions(table: Mapping[Any, Any], states: Sequence[Any]) -> Iterable[tuple[Any, Any, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            for event, target in value.items():
                yield key, event, _target(target, states)
        else:
            source, event = key
            yield source, event, _target(value, states)


def _target(value: Any, states: Sequence[Any]) -> Any:
    return next(part for part in (value if isinstance(value, tuple) else (value,)) if part in states)


def _words(member: Any) -> str:
    return (member.name if isinstance(member, enum.Enum) else str(member)).lower().replace("_", " ")


Edge = tuple[str, str]
"""The names of two states."""


@dataclass
class _Lane:
    """A vertical line beside the states; `taken` has the rows that it passes."""

    taken: set[int]
    width: float = 0
    offset: float = 0


def draw_machine(machine: Machine) -> str:
    """Draw the states in a column; events lead down on the right and in the middle, and up on the left."""
    drawing = _MachineDrawing(machine)
    drawing.draw_states()
    drawing.draw_neighbours()
    drawing.draw_side(drawing.down, right=True)
    drawing.draw_side(drawing.up, right=False)
    drawing.draw_legend()
    return drawing.canvas.svg()


class _MachineDrawing:
    """The places of the states and lines of one state machine."""

    def __init__(self, machine: Machine) -> None:
        self.canvas = Canvas(machine.title)
        self.machine = machine
        self.row = {state: number for number, state in enumerate(machine.states)}
        edges = sorted(machine.edges, key=lambda edge: (abs(self._span(edge)), self.row[edge[0]]))
        self.next = [edge for edge in edges if self._span(edge) == 1]
        self.down = self._lanes([edge for edge in edges if self._span(edge) > 1])
        self.up = self._lanes([edge for edge in edges if self._span(edge) < 0])
        texts = [NARROW * len(text) for text in machine.meanings.values()]
        # The events that leave a state as it is are written below it, on the left of the arrow in the middle.
        texts += [2 * NARROW * len(_stays(machine.edges.get((start, start), ()))) for start, _ in self.next]
        self.width = 28 + max([WIDE * len(state) for state in machine.states] + texts)
        self.left = 32 + sum(lane.width for lane in _unique(self.up.values()))
        self.heights = {state: self._height(state) for state in machine.states}
        self.top: dict[str, float] = {}
        y = 46.0
        for state in machine.states:
            self.top[state] = y
            y += self.heights[state] + 14 + LINE * self._lines_below(self.row[state])
        self.bottom = y

    def _span(self, edge: Edge) -> int:
        return self.row[edge[1]] - self.row[edge[0]]

    def _group(self, edge: Edge) -> tuple[str, tuple[str, ...]]:
        """Return what edges must have in common to share one line: where they lead, and by which events."""
        return edge[1], tuple(self.machine.edges[edge])

    def _lanes(self, edges: Sequence[Edge]) -> dict[Edge, _Lane]:
        """Give each group of edges the innermost lane that is free along its rows."""
        rows: dict[tuple[str, tuple[str, ...]], set[int]] = {}
        for edge in edges:
            low, high = sorted((self.row[edge[0]], self.row[edge[1]]))
            rows.setdefault(self._group(edge), set()).update(range(low, high + 1))
        lanes: list[_Lane] = []
        given: dict[tuple[str, tuple[str, ...]], _Lane] = {}
        for group, passed in sorted(rows.items(), key=lambda item: len(item[1])):
            lane = next((lane for lane in lanes if not lane.taken & passed), None)
            if lane is None:
                lane = _Lane(set())
                lanes.append(lane)
            lane.taken |= passed
            lane.width = max(lane.width, 24 + NARROW * max(len(event) for event in group[1]))
            given[group] = lane
        offset = 0.0
        for lane in lanes:
            lane.offset = offset
            offset += lane.width
        return {edge: given[self._group(edge)] for edge in edges}

    def _ports(self, state: str, lanes: Mapping[Edge, _Lane]) -> list[object]:
        """Return the lines that begin or end at one side of a state, from top to bottom."""
        found: dict[object, None] = {}
        for edge in lanes:
            if edge[1] == state:
                found[self._group(edge)] = None
            if edge[0] == state:
                found[edge] = None
        return list(found)

    def _height(self, state: str) -> float:
        ports = max(len(self._ports(state, self.down)), len(self._ports(state, self.up)))
        return max(46 if self.machine.meanings else 34, 14 * (ports + 1))

    def _lines_below(self, number: int) -> int:
        """Return how many lines of text the gap below a row has to hold."""
        lines = [2]
        for edge, events in self.machine.edges.items():
            span, source = self._span(edge), self.row[edge[0]]
            if number == (source if span > 0 else source - 1) and span:
                lines.append(len(events) + 1)
        return max(lines)

    def draw_states(self) -> None:
        """Draw the boxes, each with its name, its meaning, and the events that leave it as it is."""
        self.canvas.text(16, 24, self.machine.title, "strong", "start")
        for state in self.machine.states:
            self.canvas.box(self.left, self.top[state], self.width, self.heights[state])
            middle, across = self.top[state] + self.heights[state] / 2, self.left + self.width / 2
            meaning = self.machine.meanings.get(state)
            self.canvas.text(across, middle + (5 if meaning is None else -3), state, "strong")
            if meaning is not None:
                self.canvas.text(across, middle + 14, meaning, "small")
            if events := self.machine.edges.get((state, state)):
                self.canvas.text(self.left + 4, self._below(state) - 2, _stays(events), "small", "start")

    def _below(self, state: str) -> float:
        return self.top[state] + self.heights[state] + LINE

    def draw_neighbours(self) -> None:
        """Draw the events that lead to the next state of the column."""
        x = self.left + self.width / 2
        for edge in self.next:
            self.canvas.arrow([(x, self._below(edge[0]) - LINE), (x, self.top[edge[1]])])
            _write(self.canvas, x + 8, self._below(edge[0]), self.machine.edges[edge], "start")

    def draw_side(self, lanes: Mapping[Edge, _Lane], *, right: bool) -> None:
        """Draw the events that lead along the lanes of one side."""
        beside = [len(event) for edge in self.next for event in self.machine.edges[edge]]
        clear = max(0, 8 + NARROW * max(beside, default=0) - self.width / 2)  # the text beside the middle arrows
        wall = self.left + self.width if right else self.left
        for edge, lane in lanes.items():
            source, target = edge
            x = wall + 18 + clear + lane.offset if right else wall - 18 - lane.offset
            start = self.top[source] + 14 * (1 + self._ports(source, lanes).index(edge))
            end = self.top[target] + 14 * (1 + self._ports(target, lanes).index(self._group(edge)))
            self.canvas.arrow([(wall, start), (x, start), (x, end), (wall, end)])
            events = self.machine.edges[edge]
            if right:
                _write(self.canvas, x + 6, self._below(source), events, "start")
            else:
                _write(self.canvas, x - 6, self.top[source] - LINE * len(events) + 4, events, "end")

    def draw_legend(self) -> None:
        """Write what the events mean."""
        lines = [f"from every state: {event} leads to {state}" for event, state in self.machine.anywhere.items()]
        lines += [f"{event}: {text}" for event, text in self.machine.legend.items()]
        for number, line in enumerate(lines):
            self.canvas.text(16, self.bottom + number * (LINE + 3), line, "small", "start")


def _stays(events: Sequence[str]) -> str:
    return "stays: " + ", ".join(events)


def _unique(lanes: Iterable[_Lane]) -> list[_Lane]:
    return list({id(lane): lane for lane in lanes}.values())


def _write(canvas: Canvas, x: float, y: float, lines: Sequence[str], anchor: str) -> None:
    for number, line in enumerate(lines):
        canvas.text(x, y + number * LINE, line, "small", anchor)


def diagrams() -> dict[str, str]:
    """Return every diagram by the name of its file."""
    drawn = {
        "packages.svg": draw_packages(),
        "request-path.svg": draw_request_path(),
        "call-objects.svg": draw_objects(),
    }
    for name in machine_modules():
        drawn[file_of(name)] = draw_machine(machine_of(importlib.import_module(name)))
    return drawn


def file_of(module: str) -> str:
    """Return the name of the file that shows the state machine of a module."""
    return "states-" + "-".join(module.replace("_", "-").split(".")[1:]) + ".svg"


def main() -> None:
    """Write the diagrams, and remove those that are no longer drawn."""
    drawn = diagrams()
    for path in FOLDER.glob("*.svg"):
        if path.name not in drawn:
            path.unlink()
    for name, text in drawn.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
