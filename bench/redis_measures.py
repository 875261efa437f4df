"""What sessions on Redis cost against sessions in memory, and what a second worker process brings."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from bench.driver import HANDSHAKE
from bench.http_load import Connection, HttpServer, Load, connected, messages_of
from bench.http_measures import CONNECTIONS, check_echo, open_sessions
from bench.measures import STEPS, Effort, Figures
from bench.peers import SERVERS, Peer
from bench.processes import DriverError

REDIS = shutil.which("redis-server")
SESSIONS = 5000
FIRST_SESSIONS = 200
OPENED = 500
QUIET_SECONDS = 2.0
"""How long the commands are counted that a replica sends when nothing happens, such as its heartbeat."""

SERVER = [sys.executable, str(SERVERS / "replica_server.py")]
"""With the packages of this process: the extra `redis` is among them."""

LIMITS = {"max_sessions": 50_000, "max_sessions_each": 50_000}


class Redis:
    """A Redis server of its own, without persistence, and its counters."""

    def __init__(self) -> None:
        assert REDIS is not None
        self._folder = tempfile.TemporaryDirectory()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen([REDIS, *options, "--dir", self._folder.name], stdout=subprocess.DEVNULL)
        self._connection = self._connect()
        self._own = 0

    @property
    def url(self) -> str:
        """The URL of a store in it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def counters(self) -> dict[str, int]:
        """Requests read from clients other than this one, and the memory in use.

        What a client sends at once, such as a pipeline, is read at once: each read is a round trip.
        """
        self._own += 1
        self._connection.sendall(b"INFO all\r\n")
        answer = b""
        while not answer.endswith(b"\r\n") or len(answer) < int(answer[1 : answer.index(b"\r\n")] or 0):
            answer += self._connection.recv(1 << 16)
        fields = dict(line.split(":", 1) for line in answer.decode().split("\r\n") if ":" in line)
        return {"reads": int(fields["total_reads_processed"]) - self._own, "memory": int(fields["used_memory"])}

    def close(self) -> None:
        """End it."""
        self._connection.close()
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def _connect(self) -> socket.socket:
        for _ in range(500):
            with contextlib.suppress(ConnectionRefusedError):
                return socket.create_connection(("127.0.0.1", self.port), timeout=10)
            time.sleep(0.01)
        raise DriverError("redis-server does not listen")


def run_round(peers: list[Peer], effort: Effort, problems: list[str]) -> dict[str, Figures]:
    """One round; what fails is missing from the figures and told in `problems`."""
    taken: dict[str, Figures] = {}
    for peer in peers:
        figures = taken[peer.name] = {}
        try:
            with contextlib.closing(Redis()) as redis:
                figures |= _costs(redis, effort)
                figures |= _workers(redis, effort)
        except (DriverError, OSError) as error:
            problems.append(f"{peer.name}, sessions on Redis: {error}")
    return taken


def _costs(redis: Redis, effort: Effort) -> Figures:
    figures: Figures = {}
    with _server() as memory, _server(store=redis.url) as stored:
        # Each twice, in an order that favours neither.
        turns = [_echoes(server, effort, redis) for server in (memory, stored, stored, memory)]
        figures["memory echo16"] = (turns[0][0] + turns[3][0]) / 2
        figures["redis echo16"] = (turns[1][0] + turns[2][0]) / 2
        figures["redis call trips"] = (turns[1][1] + turns[2][1]) / 2
        figures["redis opening trips"] = _opening_trips(stored, redis)
        figures["redis event trips"] = _event_trips(stored, redis, 200, 0.01)
        figures["redis burst trips"] = _event_trips(stored, redis, 5 * STEPS, 0)
    with _server(store=redis.url) as stored:
        figures |= _idle_sessions(stored, redis)
    return figures


@contextlib.contextmanager
def _server(**options: Any) -> Iterator[HttpServer]:
    with contextlib.closing(HttpServer([*SERVER, json.dumps({**LIMITS, **options})])) as server:
        yield server


def _echoes(server: HttpServer, effort: Effort, redis: Redis) -> tuple[float, float]:
    """CPU seconds of the server a call, and the round trips to Redis a call."""
    with connected(server, HANDSHAKE, CONNECTIONS) as connections:
        load = _echo_load(connections)
        load.run(effort.warm)
        quiet = _quiet_reads(redis)
        before, reads = server.settled_cpu(), redis.counters()["reads"]
        done, wall = load.run(2 * effort.measure)
        trips = redis.counters()["reads"] - reads - quiet * wall
        return (server.settled_cpu() - before) / done, max(0.0, trips) / done


def _echo_load(connections: list[Connection]) -> Load:
    for connection in connections:
        connection.aim("tools/call", {"name": "echo", "arguments": {"text": "hello"}})
    return Load(connections, check_echo)


def _quiet_reads(redis: Redis) -> float:
    """Requests a second that Redis gets while no client does anything."""
    before = redis.counters()["reads"]
    time.sleep(QUIET_SECONDS)
    return (redis.counters()["reads"] - before) / QUIET_SECONDS


def _opening_trips(server: HttpServer, redis: Redis) -> float:
    with connected(server, HANDSHAKE, 1) as connections:
        quiet = _quiet_reads(redis)
        before, begun = redis.counters()["reads"], time.perf_counter()
        open_sessions(connections, OPENED)
        server.settled_cpu()
        wall = time.perf_counter() - begun
        return max(0.0, redis.counters()["reads"] - before - quiet * wall) / OPENED


def _event_trips(server: HttpServer, redis: Redis, steps: int, pause: float) -> float:
    """Round trips for each event of a resumable stream."""
    with connected(server, HANDSHAKE, 1) as connections:
        connection = connections[0]
        arguments = {"steps": steps, "pause": pause}
        connection.aim("tools/call", {"name": "count", "arguments": arguments}, progressToken="p")
        quiet = _quiet_reads(redis)
        before, begun = redis.counters()["reads"], time.perf_counter()
        connection.exchange(200)
        events = len(messages_of(connection))
        server.settled_cpu()
        wall = time.perf_counter() - begun
        return max(0.0, redis.counters()["reads"] - before - quiet * wall) / events


def _idle_sessions(server: HttpServer, redis: Redis) -> Figures:
    with connected(server, HANDSHAKE, CONNECTIONS) as connections:
        open_sessions(connections, FIRST_SESSIONS)
        server.settled_cpu()
        resident, stored = server.memory(), redis.counters()["memory"]
        open_sessions(connections, SESSIONS)
        server.settled_cpu()
        return {
            "redis session": (server.memory() - resident) / SESSIONS,
            "redis session stored": (redis.counters()["memory"] - stored) / SESSIONS,
        }


def _workers(redis: Redis, effort: Effort) -> Figures:
    """Calls a second of one process and of two, with the CPU that servers and load generator take for a call.

    The load generator is this process, on the same machine: two workers and it share the cores.
    """
    figures: Figures = {}
    for name, workers in (("one worker", 1), ("two workers", 2)):
        with (
            _server(store=redis.url, workers=workers) as server,
            connected(server, HANDSHAKE, 4 * CONNECTIONS) as connections,
        ):
            load = _echo_load(connections)
            load.run(effort.warm)
            before, own = server.family_cpu(), time.process_time()
            done, wall = load.run(2 * effort.measure)
            figures[f"{name} generator"] = (time.process_time() - own) / wall / (os.cpu_count() or 1)
            figures[f"{name} cpu"] = (server.family_cpu() - before) / done
            figures[f"{name} rate"] = done / wall
    return figures
