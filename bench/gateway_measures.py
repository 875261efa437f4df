"""The cost of a gateway: calls through it, direct ones and through other proxies; lists, results and sessions."""

import contextlib
import functools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from bench.driver import ENVELOPE, HANDSHAKE
from bench.http_load import Connection, HttpServer, Load, connected, result_of
from bench.http_measures import CONNECTIONS, FIRST_SESSIONS, check_echo, open_sessions
from bench.latencies import Latencies, percentile
from bench.measures import Effort, Figures
from bench.paced_load import BACKLOG, Pace, PacedLoad, send_times
from bench.peers import PEERS, SERVERS, Peer
from bench.processes import DriverError
from bench.rows import FAST, SLOW

SERVER_COUNT, TOOLS_EACH = 50, 20
ONE_BY_ONE = 400
"""Calls one after the other, of which the latency is measured."""
LARGE = 1_000_000
CALLERS = 32
"""Connections for calls at a fixed rate: a call waits for an idle one only if that many are without an answer."""

FAST_CALLS = 500
"""Calls of a round at the higher rate."""

GATEWAY = [sys.executable, str(SERVERS / "gateway_server.py")]
FASTMCP = PEERS / "fastmcp3" / "bin" / "python"
MCP_PROXY = PEERS / "mcp_proxy" / "bin" / "python"


def run_round(peers: list[Peer], effort: Effort, problems: list[str], latencies: Latencies) -> dict[str, Figures]:
    """One round, whose latencies are added to those before; what fails is missing, and told in `problems`."""
    taken: dict[str, Figures] = {}
    for peer in peers:
        figures = taken[peer.name] = {}
        for item in (_http_calls, _stdio_calls, _large_results, _lists, _sessions):
            try:
                figures |= item(peer, effort, problems, latencies)
            except (DriverError, OSError) as error:
                problems.append(f"{peer.name}, gateway: {error}")
    return taken


@contextlib.contextmanager
def _served(argv: Sequence[str]) -> Iterator[HttpServer]:
    with contextlib.closing(HttpServer(argv)) as server:
        yield server


def _http_calls(peer: Peer, effort: Effort, problems: list[str], latencies: Latencies) -> Figures:
    """Calls to one and the same server over HTTP behind each proxy, and to it directly."""
    figures: Figures = {}
    with _served(peer.http) as backend:
        url = f"http://127.0.0.1:{backend.port}/mcp"
        paced = functools.partial(_paced, effort, problems, latencies)
        figures |= _latency("direct", backend, "echo", ENVELOPE)
        figures |= paced("direct", backend, "echo", ENVELOPE, FAST)
        figures |= paced("direct session", backend, "echo", HANDSHAKE, FAST, SLOW)
        with _served([*GATEWAY, f"bench={url}"]) as gateway:
            figures |= _load("gateway", gateway, "bench__echo", ENVELOPE, effort)
            figures |= _load("gateway session", gateway, "bench__echo", HANDSHAKE, effort)
            figures |= _latency("gateway", gateway, "bench__echo", ENVELOPE)
            figures |= paced("gateway", gateway, "bench__echo", ENVELOPE, FAST)
            figures |= paced("gateway session", gateway, "bench__echo", HANDSHAKE, FAST, SLOW)
        if FASTMCP.exists():
            with _served([str(FASTMCP), str(SERVERS / "fastmcp_proxy.py"), url]) as proxy:
                figures |= _load("fastmcp proxy", proxy, "echo", HANDSHAKE, effort)
                figures |= paced("fastmcp proxy", proxy, "echo", HANDSHAKE, SLOW)
        else:
            problems.append("gateway: FastMCP is not installed under .peers/fastmcp3")
    figures["gateway added p50"] = figures["gateway p50"] - figures["direct p50"]
    if "fastmcp proxy echo" in figures:
        figures["gateway share"] = figures["gateway session echo"] / figures["fastmcp proxy echo"]
    return figures


def _stdio_calls(peer: Peer, effort: Effort, problems: list[str], latencies: Latencies) -> Figures:
    """Calls to a server over stdio behind the gateway and behind mcp-proxy."""
    figures: Figures = {}
    paced = functools.partial(_paced, effort, problems, latencies)
    with _served([*GATEWAY, f"bench={' '.join(peer.server)}"]) as gateway:
        figures |= _load("gateway stdio", gateway, "bench__echo", HANDSHAKE, effort)
        figures |= paced("gateway stdio", gateway, "bench__echo", HANDSHAKE, FAST, SLOW)
    if MCP_PROXY.exists():
        with _served([str(MCP_PROXY), str(SERVERS / "mcp_proxy_server.py"), *peer.server]) as proxy:
            figures |= _load("mcp-proxy", proxy, "echo", HANDSHAKE, effort)
            figures |= paced("mcp-proxy", proxy, "echo", HANDSHAKE, FAST, SLOW)
    else:
        problems.append("gateway: mcp-proxy is not installed under .peers/mcp_proxy")
    return figures


def _load(name: str, server: HttpServer, tool: str, revision: str, effort: Effort) -> Figures:
    with connected(server, revision, CONNECTIONS) as connections:
        for connection in connections:
            connection.aim("tools/call", {"name": tool, "arguments": {"text": "hello"}})
        load = Load(connections, _check)
        load.run(effort.warm / 2)
        before, begun = server.settled_cpu(), time.perf_counter()
        done, _ = load.run(effort.measure)
        seconds = time.perf_counter() - begun
        return {f"{name} echo": (server.settled_cpu() - before) / done, f"{name} rate": done / seconds}


def _check(result: dict[str, Any], before: list[bytes]) -> None:
    check_echo({"content": [{"type": "text", "text": result["content"][0]["text"]}]}, before)


def _latency(name: str, server: HttpServer, tool: str, revision: str) -> Figures:
    """Latency of calls one after the other, the first of them not counted."""
    with connected(server, revision, 1) as [connection]:
        connection.aim("tools/call", {"name": tool, "arguments": {"text": "hello"}})
        taken: list[float] = []
        for _ in range(ONE_BY_ONE + 50):
            begun = time.perf_counter()
            connection.exchange(200)
            taken.append(time.perf_counter() - begun)
    return {f"{name} p50": percentile(taken[50:], 0.5)}


def _paced(
    effort: Effort,
    problems: list[str],
    latencies: Latencies,
    name: str,
    server: HttpServer,
    tool: str,
    revision: str,
    *rates: int,
) -> Figures:
    """Latency at fixed rates, the share of a core that the server used, and how late calls were sent."""
    figures: Figures = {}
    with connected(server, revision, CALLERS) as connections:
        for connection in connections:
            connection.aim("tools/call", {"name": tool, "arguments": {"text": "hello"}})
            connection.exchange(200)
        load = PacedLoad(connections, _check)
        for rate in rates:
            figure = f"{name} at {rate}"
            rounds = latencies.setdefault(figure, [])
            # The same times for all that are compared in a round, and others in the next one.
            times = send_times(Pace(rate, FAST_CALLS if rate == FAST else effort.slow_calls), seed=len(rounds))
            before = server.settled_cpu()
            paced = load.run_at(times)
            figures[f"{figure} core"] = (server.settled_cpu() - before) / times[-1]
            figures[f"{figure} late"] = percentile(paced.late, 0.99)
            if paced.backlog > BACKLOG:
                problems.append(f"gateway: {figure} calls a second: the last answer came {paced.backlog:.2f} s late")
            rounds.append(paced.latencies)
    return figures


def _large_results(peer: Peer, effort: Effort, problems: list[str], latencies: Latencies) -> Figures:
    """CPU of the server, and of the gateway, for a small request with a result of 1 MB."""
    with _served([sys.executable, str(SERVERS / "large_server.py"), str(LARGE)]) as backend:
        figures = _large("direct", backend, "document", ENVELOPE)
        with _served([*GATEWAY, f"bench=http://127.0.0.1:{backend.port}/mcp"]) as gateway:
            figures |= _large("gateway", gateway, "bench__document", ENVELOPE)
            figures |= _large("gateway session", gateway, "bench__document", HANDSHAKE)
    return figures


def _large(name: str, server: HttpServer, tool: str, revision: str) -> Figures:
    with connected(server, revision, 1) as [connection]:
        connection.aim("tools/call", {"name": tool, "arguments": {}})
        for _ in range(3):
            connection.exchange(200)
        if (size := len(result_of(connection)["content"][0]["text"])) != LARGE:
            raise DriverError(f"{size} characters instead of {LARGE}")
        before, number = server.settled_cpu(), 50
        for _ in range(number):
            connection.exchange(200)
        return {f"{name} large": (server.settled_cpu() - before) / number}


def _lists(peer: Peer, effort: Effort, problems: list[str], latencies: Latencies) -> Figures:
    """The list of the tools of 50 servers, once it is known."""
    python, program = sys.executable, SERVERS / "many_tools_server.py"
    servers = [f"s{number}={python} {program} {TOOLS_EACH}" for number in range(SERVER_COUNT)]
    with _served([*GATEWAY, *servers]) as gateway, connected(gateway, ENVELOPE, 1) as [connection]:
        _list_all(connection)
        taken: list[float] = []
        for _ in range(20):
            begun = time.perf_counter()
            _list_all(connection)
            taken.append(time.perf_counter() - begun)
        return {"gateway list": sorted(taken)[len(taken) // 2]}


def _list_all(connection: Connection) -> None:
    """Fetch every page; the servers may still start the first time."""
    until = time.perf_counter() + 60
    while True:
        count, cursor = 0, None
        while True:
            connection.aim("tools/list", {} if cursor is None else {"cursor": cursor})
            connection.exchange(200)
            result = result_of(connection)
            count, cursor = count + len(result["tools"]), result.get("nextCursor")
            if cursor is None:
                break
        if count == SERVER_COUNT * TOOLS_EACH:
            return
        if time.perf_counter() > until:
            raise DriverError(f"{count} tools instead of {SERVER_COUNT * TOOLS_EACH}")
        time.sleep(0.2)


def _sessions(peer: Peer, effort: Effort, problems: list[str], latencies: Latencies) -> Figures:
    """Memory of the gateway for a session that has listed nothing yet."""
    with (
        _served(peer.http) as backend,
        _served([*GATEWAY, f"bench=http://127.0.0.1:{backend.port}/mcp"]) as gateway,
        connected(gateway, HANDSHAKE, CONNECTIONS) as connections,
    ):
        open_sessions(connections, FIRST_SESSIONS)
        gateway.settled_cpu()
        before = gateway.memory()
        open_sessions(connections, effort.sessions)
        gateway.settled_cpu()
        return {"gateway session memory": (gateway.memory() - before) / effort.sessions}
