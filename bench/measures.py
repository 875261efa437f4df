"""What is measured over stdio. Peers take turns at each item, so that a slow moment of the machine hits all of them."""

import contextlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.driver import ENVELOPE, HANDSHAKE, Child, Session, result_of
from bench.peers import Peer
from bench.processes import DriverError, process_cpu

TOOLS = 105
WINDOW = 64
STEPS = 1000
STARTS = 3
MEGABYTE = "0123456789abcdef" * 65_536

Figures = dict[str, float]
"""Name of a figure to seconds, bytes or a count."""


class Effort(NamedTuple):
    """How long a run lasts: seconds of warm-up and of measuring for each item, the rounds, the idle sessions, and the
    calls of a round at a low rate."""

    warm: float
    measure: float
    rounds: int
    sessions: int
    slow_calls: int


QUICK = Effort(0.2, 0.3, 2, 500, 40)
FULL = Effort(1.0, 0.7, 5, 1000, 60)

Item = Callable[[Session, Effort], Figures]


def run_round(peers: Sequence[Peer], effort: Effort) -> dict[str, Figures]:
    """One round: every item once for every peer, in the order given."""
    figures: dict[str, Figures] = {peer.name: {} for peer in peers}
    for name, command in (("import", "imports"), ("bare", "bare")):
        for _ in range(STARTS):
            for peer in peers:
                figures[peer.name][name] = min(
                    process_cpu(getattr(peer, command)), figures[peer.name].get(name, float("inf"))
                )
    for revision, items, suffix in ((HANDSHAKE, HANDSHAKE_ITEMS, ""), (ENVELOPE, ENVELOPE_ITEMS, " 2026")):
        for name, found in _on_revision(peers, revision, items, effort).items():
            figures[name] |= {f"{key}{suffix}": value for key, value in found.items()}
    return figures


def _on_revision(peers: Sequence[Peer], revision: str, items: Sequence[Item], effort: Effort) -> dict[str, Figures]:
    taken: dict[str, Figures] = {}
    for _ in range(STARTS - 1):
        for peer in peers:
            child, _, figures = _start(peer, revision)
            child.close()
            _keep_least(taken.setdefault(peer.name, {}), figures)
    with contextlib.ExitStack() as stack:
        sessions: dict[str, Session] = {}
        for peer in peers:
            child, sessions[peer.name], figures = _start(peer, revision)
            stack.callback(child.close)
            _keep_least(taken[peer.name], figures)
        for item in items:
            for name, session in sessions.items():
                try:
                    taken[name] |= item(session, effort)
                except DriverError as error:
                    raise DriverError(f"{name} on {revision}: {error}") from error
    return taken


def _start(peer: Peer, revision: str) -> tuple[Child, Session, Figures]:
    begun = time.perf_counter()
    child = Child(peer.server)
    try:
        session = Session(child, revision)
        if (tools := session.list_tools()) != TOOLS:
            raise DriverError(f"{tools} tools instead of {TOOLS}")
        wall = time.perf_counter() - begun
        figures = {"start": child.settled_cpu(), "start wall": wall, "memory": float(child.memory())}
    except DriverError as error:
        child.close()
        raise DriverError(f"{peer.name} on {revision}: {error}") from error
    return child, session, figures


def _keep_least(kept: Figures, figures: Figures) -> None:
    for name, value in figures.items():
        kept[name] = min(value, kept.get(name, value))


def _repeat(session: Session, once: Callable[[], tuple[int, float]], effort: Effort) -> tuple[float, float]:
    """CPU seconds a unit, and the median wall seconds; `once` returns units done and seconds taken."""
    until = time.perf_counter() + effort.warm
    while time.perf_counter() < until:
        once()
    units, walls, before = 0, list[float](), session.child.settled_cpu()
    until = time.perf_counter() + effort.measure
    while time.perf_counter() < until:
        done, wall = once()
        units += done
        walls.append(wall / done)
    return (session.child.settled_cpu() - before) / units, statistics.median(walls)


def _calls(name: str, tool: str, window: int) -> Item:
    batch = max(window * 5, 50)

    def item(session: Session, effort: Effort) -> Figures:
        kept: list[bytes] = []

        def once() -> tuple[int, float]:
            kept[:], wall = session.calls(tool, {"text": "hello"}, batch, window)
            return batch, wall

        cpu, wall = _repeat(session, once, effort)
        _check_echoes(kept, batch)
        return {name: cpu, f"{name} wall": wall}

    return item


def _check_echoes(answers: Sequence[bytes], number: int) -> None:
    for line in answers:
        if result_of(line)["content"] != [{"type": "text", "text": "hello"}]:
            raise DriverError(f"wrong echo: {line[:300].decode()}")
    if len(set(answers)) != number:
        raise DriverError(f"{number} calls gave {len(set(answers))} different answers")


def _megabyte(session: Session, effort: Effort) -> Figures:
    def once() -> tuple[int, float]:
        [line], wall = session.calls("echo", {"text": MEGABYTE}, 1, 1)
        if len(line) < len(MEGABYTE):
            raise DriverError("the megabyte came back shorter")
        return 1, wall

    cpu, wall = _repeat(session, once, effort)
    return {"megabyte": cpu, "megabyte wall": wall}


def _list(session: Session, effort: Effort) -> Figures:
    def once() -> tuple[int, float]:
        begun = time.perf_counter()
        return session.list_tools() // TOOLS, time.perf_counter() - begun

    cpu, wall = _repeat(session, once, effort)
    return {"list": cpu, "list wall": wall}


def _progress(session: Session, effort: Effort) -> Figures:
    came: list[int] = []

    def once() -> tuple[int, float]:
        begun = time.perf_counter()
        came.append(session.counted(STEPS))
        return STEPS, time.perf_counter() - begun

    cpu, wall = _repeat(session, once, effort)
    return {"progress": cpu, "progress wall": wall, "progress seen": sum(came) / len(came)}


HANDSHAKE_ITEMS: tuple[Item, ...] = (
    _calls("echo64 async", "echo", WINDOW),
    _calls("echo64 sync", "echo_sync", WINDOW),
    _calls("echo1 async", "echo", 1),
    _calls("echo1 sync", "echo_sync", 1),
    _megabyte,
    _list,
    _progress,
)
ENVELOPE_ITEMS: tuple[Item, ...] = (
    _calls("echo64 async", "echo", WINDOW),
    _calls("echo64 sync", "echo_sync", WINDOW),
    _calls("echo1 async", "echo", 1),
)
