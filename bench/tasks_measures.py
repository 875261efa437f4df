"""The cost of a task against a plain call, of one that waits for an answer, and the tasks a second of each store."""

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.client_measures import figures_of
from bench.driver import ENVELOPE
from bench.http_load import Connection, HttpServer, Load, connected
from bench.http_measures import CONNECTIONS
from bench.measures import Effort, Figures
from bench.peers import CLIENTS, SERVERS, Peer
from bench.processes import DriverError
from bench.redis_measures import REDIS, Redis

WAITING = 10_000
"""As many as one client may have."""
FIRST_WAITING = CONNECTIONS
"""One for each connection, so that everything is loaded; the handlers that are kept in memory are among the rest."""

SERVER = [sys.executable, str(SERVERS / "task_server.py")]
CAPABILITIES = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}


def run_round(peers: list[Peer], effort: Effort, problems: list[str]) -> dict[str, Figures]:
    """One round; what fails is missing from the figures and told in `problems`."""
    taken: dict[str, Figures] = {}
    for peer in peers:
        figures = taken[peer.name] = {}
        try:
            program = [sys.executable, str(CLIENTS / "dovetail_tasks.py")]
            found = figures_of([*program, str(effort.warm), str(effort.measure)])
            figures |= {"task plain": found["plain"], "task": found["task"]}
            with _file() as file:
                figures |= _waiting(file)
            with _file() as file:
                figures |= _throughput("sqlite", file, effort)
            if REDIS is not None:
                with contextlib.closing(Redis()) as redis:
                    figures |= _throughput("redis", redis.url, effort)
        except (DriverError, OSError) as error:
            problems.append(f"{peer.name}, tasks: {error}")
    return taken


@contextlib.contextmanager
def _file() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield str(Path(folder, "tasks.db"))


@contextlib.contextmanager
def _server(store: str) -> Iterator[HttpServer]:
    with contextlib.closing(HttpServer([*SERVER, json.dumps({"store": store})])) as server:
        yield server


def _waiting(store: str) -> Figures:
    """Memory of the process for each task that waits for an answer, records in the store aside."""
    with _server(store) as server, connected(server, ENVELOPE, CONNECTIONS) as connections:
        _create(connections, "ask", FIRST_WAITING)
        server.settled_cpu()
        before = server.memory()
        _create(connections, "ask", WAITING - FIRST_WAITING)
        server.settled_cpu()
        return {"task waiting": (server.memory() - before) / (WAITING - FIRST_WAITING)}


def _throughput(name: str, store: str, effort: Effort) -> Figures:
    """Tasks a second that are created and completed, and their CPU in the server."""
    with _server(store) as server, connected(server, ENVELOPE, CONNECTIONS) as connections:
        load = _load(connections, "quick")
        load.run(effort.warm / 2)
        before, begun = server.settled_cpu(), time.perf_counter()
        done, _ = load.run(effort.measure)
        spent = server.settled_cpu() - before
        return {f"task {name} rate": done / (time.perf_counter() - begun), f"task {name}": spent / done}


def _create(connections: list[Connection], tool: str, number: int) -> None:
    _load(connections, tool)
    for _ in range(number // len(connections)):
        for connection in connections:
            connection.fire()
        for connection in connections:
            while not connection.read():
                pass
            if b'"task"' not in connection.data():
                raise DriverError(f"no task: {connection.data()[:500]!r}")


def _load(connections: list[Connection], tool: str) -> Load:
    for connection in connections:
        connection.capabilities = CAPABILITIES
        connection.aim("tools/call", {"name": tool, "arguments": {}})
    return Load(connections, _check)


def _check(result: dict[str, Any], before: list[bytes]) -> None:
    if result.get("resultType") != "task" or before:
        raise DriverError(f"no task: {result}")
