"""The server of the isolation tests, as a program: `python isolated_server.py CLIENTS WORKERS [STORE]`.

CLIENTS is `principals`, for bearer tokens that are the names of their owners, or `addresses`, for no authentication.
Its limits for each client are small, so that a test reaches them quickly.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from dovetail import Context, Server
from dovetail.middleware import RateLimit

PRINCIPALS: tuple[str, ...] = ("ann", "bob", "eve")
PUBLIC, SECRET = "files:///public/readme", "files:///secret/plan"
PAGE = 3
BURST = 5
MAX_SESSIONS, MAX_CONNECTIONS, MAX_STREAMS = 60, 10, 20
PATIENCE = 60.0


def authenticate(token: str) -> str | None:
    return token if token in PRINCIPALS else None


def sees(principal: str | None, kind: str, name: str) -> bool:
    return "secret" not in name or principal in (None, "ann")


def make(clients: str) -> Server:
    options: dict[str, Any] = {"auth": authenticate, "visible": sees} if clients == "principals" else {}
    server = Server("isolated", page_size=PAGE, completion_rate=0.001, **options)
    server.use(RateLimit(0.001, burst=BURST), methods=["prompts/get"])
    for name in ("secret_first", "public_1", "public_2", "secret_second", "public_3", "public_4"):
        server.tool(lambda: 1, name=name)
    server.resource(PUBLIC)(lambda: "public")
    server.resource(SECRET)(lambda: "secret")
    server.prompt(lambda topic: topic, name="about")
    server.completion("about", "topic")(lambda value: ["tea", "cups"])
    add_tools(server)
    return server


def add_tools(server: Server) -> None:
    blocked: list[str] = []

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.principal} {os.getpid()}"

    @server.tool
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Sure?")
        return f"{ctx.principal} {answer.accepted}"

    @server.tool
    async def touch() -> None:
        for uri in (SECRET, PUBLIC):
            server.notify_resource_updated(uri)

    @server.tool
    async def log(text: str, ctx: Context) -> None:
        await ctx.log.info(text)

    @server.tool
    def block(flag: str) -> None:
        """Block a thread until there is a file."""
        blocked.append(flag)
        end = time.monotonic() + PATIENCE
        while not Path(flag).exists() and time.monotonic() < end:
            time.sleep(0.02)

    @server.tool
    async def count_blocked(flag: str) -> str:
        """The process, and the threads that it has blocked."""
        return f"{os.getpid()} {blocked.count(flag)}"

    @server.tool
    def quick() -> str:
        return "quick"


if __name__ == "__main__":
    clients, workers, *store = sys.argv[1:]
    make(clients).run(
        "http",
        port=0,
        workers=int(workers),
        store=store[0] if store else None,
        max_sessions_each=MAX_SESSIONS,
        max_connections_each=MAX_CONNECTIONS,
        max_streams_each=MAX_STREAMS,
    )
