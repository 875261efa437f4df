"""The lines of the tables, and the bounds that Dovetail is held to."""

from typing import NamedTuple

SLOW, FAST = 15, 400
"""Calls a second at which latencies are compared: one that FastMCP's proxy sustains, and one that the others do."""

MOST_ADDED = 0.5
"""The greatest allowed median that the gateway adds, in ms."""

SCALE = {"ms": 1e3, "µs": 1e6, "MB": 1e-6, "KB": 1e-3, "bytes": 1, "calls/s": 1, "trips": 1, "%": 100, "×": 1}


class Row(NamedTuple):
    """One line; a bound is the greatest allowed share of a peer's figure, or multiple of it."""

    figure: str
    title: str
    unit: str
    bounds: tuple[tuple[str, float], ...] = ()
    most: float | None = None
    """The greatest allowed figure of Dovetail, in the row's unit."""
    beside: tuple[str, str, float] | None = None
    """Another figure of Dovetail, what it is called, and the share of it that this one must keep: a floor below 1,
    a ceiling above."""


class PacedRow(NamedTuple):
    """One line of latencies at a fixed rate."""

    figure: str
    title: str
    direct: str = ""
    """The figure of direct calls to the same server, from which it differs by what a proxy adds."""
    most: float | None = None
    """The greatest allowed median that is added, in ms."""


MCP = "mcp"
FLOOR = "floor"
"""A bare ASGI application on the same uvicorn."""
STDIO_ROWS = (
    Row("start", "spawn to first tools/list, 105 tools: CPU", "ms", ((MCP, 1 / 8),)),
    Row("start wall", "spawn to first tools/list: wall", "ms"),
    Row("import", "a process that imports the package: CPU", "ms", ((MCP, 1 / 10),)),
    Row("bare", "a process that imports nothing: CPU", "ms"),
    Row("memory", "memory after the first list", "MB", ((MCP, 1 / 2),)),
    Row(
        "echo64 async",
        "echo, 64 outstanding, async tool: CPU a call",
        "µs",
        ((MCP, 1 / 40), ("typescript", 1)),
    ),
    Row("echo64 async wall", "echo, 64 outstanding, async tool: wall a call", "µs"),
    Row("echo64 sync", "echo, 64 outstanding, plain function: CPU a call", "µs", (("typescript", 1),)),
    Row("echo1 async", "echo, one by one, async tool: CPU a call", "µs", ((MCP, 1 / 8),)),
    Row("echo1 async wall", "echo, one by one, async tool: latency", "µs"),
    Row("echo1 sync", "echo, one by one, plain function: CPU a call", "µs", (("typescript", 1.2),)),
    Row("megabyte wall", "echo of 1 MB: latency", "ms", ((MCP, 1),)),
    Row("megabyte", "echo of 1 MB: CPU", "ms"),
    Row("list", "tools/list, 105 tools: CPU", "µs", ((MCP, 1 / 40),)),
    Row("progress", "1,000 progress messages in a call: CPU a message", "µs", ((MCP, 1 / 50),)),
    Row("start 2026", "2026-07-28: spawn to first tools/list: CPU", "ms"),
    Row("echo64 async 2026", "2026-07-28: echo, 64 outstanding, async tool: CPU a call", "µs"),
    Row("echo64 sync 2026", "2026-07-28: echo, 64 outstanding, plain function: CPU a call", "µs"),
    Row("echo1 async 2026", "2026-07-28: echo, one by one, async tool: CPU a call", "µs"),
)
HTTP_ROWS = (
    Row(
        "http echo16 2026",
        "2026-07-28: echo beside 104 other tools, 16 connections: CPU a call",
        "µs",
        ((MCP, 1 / 8), (FLOOR, 1.6)),
        beside=("http few 2026", "that beside 2", 1.1),
    ),
    Row("http few 2026", "2026-07-28: the same beside 2 other tools", "µs"),
    Row(
        "http many 2026",
        "2026-07-28: the same beside 1,002 other tools",
        "µs",
        beside=("http few 2026", "that beside 2", 1.1),
    ),
    Row("http echo64 2026", "2026-07-28: echo, 64 connections: CPU a call", "µs"),
    Row("http echo16 2026 rate", "2026-07-28: throughput, 16 connections", "calls/s"),
    Row(
        "http echo64 2026 rate",
        "2026-07-28: throughput, 64 connections",
        "calls/s",
        beside=("http echo16 2026 rate", "that at 16", 0.9),
    ),
    Row(
        "http echo16",
        "sessions: echo, 16 connections: CPU a call",
        "µs",
        ((MCP, 1 / 10), (FLOOR, 1.8)),
    ),
    Row("http echo64", "sessions: echo, 64 connections: CPU a call", "µs"),
    Row("http echo16 rate", "sessions: throughput, 16 connections", "calls/s"),
    Row(
        "http echo64 rate",
        "sessions: throughput, 64 connections",
        "calls/s",
        beside=("http echo16 rate", "that at 16", 0.9),
    ),
    Row("http list 2026", "2026-07-28: tools/list, 105 tools: CPU", "µs", ((MCP, 1 / 25),)),
    Row("http list", "sessions: tools/list, 105 tools: CPU", "µs", ((MCP, 1 / 25),)),
    Row("http progress 2026", "2026-07-28: 1,000 progress messages over SSE: CPU a message", "µs", ((MCP, 1 / 6),)),
    Row("http progress", "sessions: 1,000 progress messages over SSE: CPU a message", "µs", ((MCP, 1 / 6),)),
    Row("http session", "memory of an idle session", "KB", ((MCP, 1 / 8),), most=6),
)
CLIENT_ROWS = (
    Row("client http", "client over HTTP, 16 calls at once: CPU a call", "µs", ((MCP, 1 / 7),)),
    Row("client stdio", "client over stdio, 16 calls at once: CPU a call", "µs", ((MCP, 1 / 8),)),
    Row("client http open", "opening a client over HTTP, imports aside: CPU", "ms", ((MCP, 1 / 5),)),
    Row("client http first", "a process to its first answer over HTTP, imports and all: CPU", "ms"),
    Row("client stdio first", "a process to its first answer over stdio, imports and all: CPU", "ms"),
    Row("host call", "what Host.call on a trusted server adds to Client.call, 16 at once: CPU a call", "µs", most=80),
    Row("host call alone", "what Host.call on a trusted server adds to Client.call, one by one: CPU a call", "µs"),
)
REDIS_ROWS = (
    Row("memory echo16", "sessions in memory: echo, 16 connections: CPU a call", "µs"),
    Row(
        "redis echo16",
        "sessions on Redis: the same",
        "µs",
        beside=("memory echo16", "that in memory", 1.15),
    ),
    Row("redis call trips", "round trips to Redis for a call in a warm session", "trips", most=0.01),
    Row("redis opening trips", "round trips to Redis to open a session, its two requests", "trips", most=2.05),
    Row("redis event trips", "round trips to Redis for an event of a resumable stream, one by one", "trips", most=1.05),
    Row("redis burst trips", "the same, 5,000 events as quickly as the client reads", "trips", most=1.05),
    Row("redis session", "memory of an idle session in the process", "KB", most=4),
    Row("redis session stored", "memory of an idle session in Redis", "bytes", most=600),
    Row("one worker rate", "sessions on Redis, one process: throughput, 64 connections", "calls/s"),
    Row("two workers rate", "the same with two worker processes", "calls/s"),
    Row("one worker cpu", "one process: CPU a call of the server", "µs"),
    Row("two workers cpu", "two worker processes: CPU a call of the servers", "µs"),
    Row("one worker generator", "one process: the load generator's share of all cores", "%"),
    Row("two workers generator", "two worker processes: the load generator's share of all cores", "%"),
)
TASK_ROWS = (
    Row("task plain", "a plain call in memory, 16 at once: CPU of client and server", "µs"),
    Row("task", "the same as a task, created and completed", "µs", beside=("task plain", "the plain call", 3.0)),
    Row("task waiting", "memory of the process for a task that waits for an answer, of 10,000", "KB", most=2),
    Row("task sqlite rate", "tasks created and completed on SQLite, over HTTP, 16 connections", "calls/s"),
    Row("task sqlite", "the same: CPU of the server a task", "µs"),
    Row("task redis rate", "tasks created and completed on Redis, over HTTP, 16 connections", "calls/s"),
    Row("task redis", "the same: CPU of the server a task", "µs"),
)
GATEWAY_ROWS = (
    Row("gateway echo", "2026-07-28 through the gateway, 16 connections: CPU of the gateway a call", "µs"),
    Row("gateway session echo", "sessions through the gateway, 16 connections: CPU of the gateway a call", "µs"),
    Row("fastmcp proxy echo", "sessions through FastMCP's proxy, 16 connections: CPU of the proxy a call", "µs"),
    Row("gateway stdio echo", "sessions through the gateway to a server over stdio: CPU of the gateway a call", "µs"),
    Row("mcp-proxy echo", "the same through mcp-proxy: CPU of the proxy a call", "µs"),
    Row("gateway share", "sessions: CPU of the gateway against that of FastMCP's proxy", "×", most=1 / 8),
    Row("gateway rate", "2026-07-28 through the gateway: throughput, 16 connections", "calls/s"),
    Row("fastmcp proxy rate", "sessions through FastMCP's proxy: throughput, 16 connections", "calls/s"),
    Row("direct p50", "a direct call, one by one: latency, median", "ms"),
    Row("gateway p50", "through the gateway, one by one: latency, median", "ms"),
    Row("gateway added p50", "what the gateway adds, median", "ms", most=MOST_ADDED),
    Row("direct large", "a small request with a result of 1 MB, direct: CPU of the server", "ms"),
    Row("gateway large", "2026-07-28: the same through the gateway: CPU of the gateway", "ms"),
    Row("gateway session large", "sessions: the same through the gateway: CPU of the gateway", "ms"),
    Row("gateway list", "tools/list of 50 servers with 1,000 tools, when warm: latency of all pages", "ms", most=20),
    Row("gateway session memory", "memory of an idle session of the gateway", "KB", most=8),
)
_SLOW, _FAST = f"at {SLOW}", f"at {FAST}"
PACED_TABLES = (
    (
        f"Latency at {SLOW} calls a second for each.",
        (
            PacedRow(f"direct session {_SLOW}", "sessions, direct"),
            PacedRow(
                f"gateway session {_SLOW}", "sessions through the gateway", f"direct session {_SLOW}", most=MOST_ADDED
            ),
            PacedRow(f"fastmcp proxy {_SLOW}", "sessions through FastMCP's proxy", f"direct session {_SLOW}"),
            PacedRow(f"gateway stdio {_SLOW}", "sessions through the gateway to a server over stdio"),
            PacedRow(f"mcp-proxy {_SLOW}", "the same through mcp-proxy"),
        ),
    ),
    (
        f"Latency at {FAST} calls a second for each; FastMCP's proxy does not sustain that.",
        (
            PacedRow(f"direct {_FAST}", "2026-07-28, direct"),
            PacedRow(f"gateway {_FAST}", "2026-07-28 through the gateway", f"direct {_FAST}", most=MOST_ADDED),
            PacedRow(f"direct session {_FAST}", "sessions, direct"),
            PacedRow(
                f"gateway session {_FAST}", "sessions through the gateway", f"direct session {_FAST}", most=MOST_ADDED
            ),
            PacedRow(f"gateway stdio {_FAST}", "sessions through the gateway to a server over stdio"),
            PacedRow(f"mcp-proxy {_FAST}", "the same through mcp-proxy"),
        ),
    ),
)
TABLES = {
    "stdio": ("Servers over stdio, revision 2025-11-25 unless the line says otherwise.", STDIO_ROWS),
    "http": ("Servers over HTTP, a session a connection on 2025-11-25, or 2026-07-28.", HTTP_ROWS),
    "clients": ("Clients, all against the same hand-written server, revision 2026-07-28.", CLIENT_ROWS),
    "redis": ("Sessions on Redis, revision 2025-11-25; the Redis server is on the same machine.", REDIS_ROWS),
    "tasks": ("Tasks, revision 2026-07-28.", TASK_ROWS),
    "gateway": ("A gateway in front of one server over HTTP.", GATEWAY_ROWS),
}
ROWS = STDIO_ROWS + HTTP_ROWS + CLIENT_ROWS + REDIS_ROWS + TASK_ROWS + GATEWAY_ROWS
