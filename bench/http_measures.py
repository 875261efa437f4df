"""What is measured of servers over HTTP. Peers take turns at each item, so that a slow moment hits all of them."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bench.driver import ENVELOPE, HANDSHAKE
from bench.http_load import Check, Connection, HttpServer, Load, connected
from bench.measures import STEPS, TOOLS, Effort, Figures
from bench.peers import Peer
from bench.processes import DriverError

OTHERS = 102
FEW, MANY = 0, 1000
CONNECTIONS, MORE_CONNECTIONS = 16, 64
FIRST_SESSIONS = 100

Item = Callable[[HttpServer, Effort], Figures]
Taken = dict[str, Figures]


def run_round(peers: Sequence[Peer], effort: Effort, problems: list[str]) -> Taken:
    """One round: every item once for every peer; what fails is missing from the figures and told in `problems`."""
    taken: Taken = {peer.name: {} for peer in peers}
    for others, items in ((OTHERS, ITEMS), (FEW, FEW_ITEMS), (MANY, MANY_ITEMS)):
        with contextlib.ExitStack() as stack:
            servers: dict[str, HttpServer] = {}
            measured = [peer for peer in peers if not peer.echo_only or ECHO_ITEMS.keys() & items.keys()]
            for peer in measured:
                with _telling(problems, f"{peer.name} with {others} more tools"):
                    servers[peer.name] = HttpServer([*peer.http, str(others)])
                    stack.callback(servers[peer.name].close)
            for title, item in items.items():
                for peer in measured:
                    if peer.name in servers and (not peer.echo_only or title in ECHO_ITEMS):
                        with _telling(problems, f"{peer.name}, HTTP, {title}"):
                            taken[peer.name] |= item(servers[peer.name], effort)
    return taken


@contextlib.contextmanager
def _telling(problems: list[str], what: str) -> Iterator[None]:
    try:
        yield
    except (DriverError, OSError) as error:
        problems.append(f"{what}: {error}")


def _measure(
    server: HttpServer, connections: Sequence[Connection], check: Check, effort: Effort
) -> tuple[float, float]:
    """CPU seconds of the server a call, and calls a second."""
    load = Load(connections, check)
    try:
        load.run(effort.warm / 2)
        before = server.settled_cpu()
        done, wall = load.run(effort.measure)
        return (server.settled_cpu() - before) / done, done / wall
    except DriverError as error:
        raise DriverError(f"{error} {server.complaint()}") from error


def _echoes(name: str, revision: str, number: int) -> Item:
    def item(server: HttpServer, effort: Effort) -> Figures:
        with connected(server, revision, number) as connections:
            for connection in connections:
                connection.aim("tools/call", {"name": "echo", "arguments": {"text": "hello"}})
            cpu, rate = _measure(server, connections, check_echo, effort)
        return {name: cpu, f"{name} rate": rate}

    return item


def check_echo(result: dict[str, Any], before: list[bytes]) -> None:
    if before or result["content"] != [{"type": "text", "text": "hello"}]:
        raise DriverError(f"wrong echo: {result} after {before}")


def _lists(name: str, revision: str) -> Item:
    def item(server: HttpServer, effort: Effort) -> Figures:
        with connected(server, revision, CONNECTIONS) as connections:
            for connection in connections:
                connection.aim("tools/list", {})
            return {name: _measure(server, connections, _check_list, effort)[0]}

    return item


def _check_list(result: dict[str, Any], before: list[bytes]) -> None:
    if before or len(result["tools"]) != TOOLS or result.get("nextCursor"):
        raise DriverError(f"{len(result['tools'])} tools in one page instead of {TOOLS}")


def _progress(name: str, revision: str) -> Item:
    def item(server: HttpServer, effort: Effort) -> Figures:
        came: list[int] = []

        def check(result: dict[str, Any], before: list[bytes]) -> None:
            if result["content"] != [{"type": "text", "text": str(STEPS)}]:
                raise DriverError(f"wrong count: {result}")
            steps = [json.loads(message)["params"]["progress"] for message in before]
            if not steps or steps[-1] != STEPS or steps != sorted(set(steps)):
                raise DriverError(f"wrong progress on the stream of the call: {steps[:3]}…{steps[-3:]}")
            came.append(len(steps))

        with connected(server, revision, 1) as connections:
            connections[0].aim("tools/call", {"name": "count", "arguments": {"steps": STEPS}}, progressToken="p")
            cpu, _ = _measure(server, connections, check, effort)
        return {name: cpu / STEPS, f"{name} seen": sum(came) / len(came)}

    return item


def _idle_sessions(server: HttpServer, effort: Effort) -> Figures:
    with connected(server, HANDSHAKE, CONNECTIONS) as connections:
        open_sessions(connections, FIRST_SESSIONS)
        server.settled_cpu()
        before = server.memory()
        open_sessions(connections, effort.sessions)
        server.settled_cpu()
        return {"http session": (server.memory() - before) / effort.sessions}


def open_sessions(connections: Sequence[Connection], number: int) -> None:
    for index in range(number):
        connection = connections[index % len(connections)]
        connection.session = b""
        connection.open()


ECHO_ITEMS: dict[str, Item] = {
    "calls on 2026-07-28, 16 connections": _echoes("http echo16 2026", ENVELOPE, CONNECTIONS),
    "calls on 2026-07-28, 64 connections": _echoes("http echo64 2026", ENVELOPE, MORE_CONNECTIONS),
    "calls in sessions, 16 connections": _echoes("http echo16", HANDSHAKE, CONNECTIONS),
    "calls in sessions, 64 connections": _echoes("http echo64", HANDSHAKE, MORE_CONNECTIONS),
}
ITEMS: dict[str, Item] = {
    **ECHO_ITEMS,
    "tools/list on 2026-07-28": _lists("http list 2026", ENVELOPE),
    "tools/list in sessions": _lists("http list", HANDSHAKE),
    "progress on 2026-07-28": _progress("http progress 2026", ENVELOPE),
    "progress in sessions": _progress("http progress", HANDSHAKE),
}
FEW_ITEMS: dict[str, Item] = {
    "calls beside no other tools": _echoes("http few 2026", ENVELOPE, CONNECTIONS),
    "idle sessions": _idle_sessions,
}
MANY_ITEMS: dict[str, Item] = {
    "calls beside 1,000 other tools": _echoes("http many 2026", ENVELOPE, CONNECTIONS),
}
