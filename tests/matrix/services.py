"""A server with what goes on around tools: completion, logs, updates, hints, a mounted server, middleware.

`build()` makes one for use in memory; `python tests/matrix/services.py` serves it over stdio.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from dovetail import Context, Server, ToolError
from dovetail.middleware import CleanOutput, Exchange, MaskErrors, Proceed, SizeLimit

if TYPE_CHECKING:
    from tests.support.replica_group import ReplicaGroup

LANGUAGES = ["ruby", "cpython", "python"]
TOOLS = ["talk", "touch", "offer", "withdraw", "shout", "crash", "refuse", "flood", "passed", "db_query", "db_grow"]


def build(group: ReplicaGroup | None = None) -> Server:
    """Make a server of its own, or one more replica of a group."""
    passed: list[str] = [] if group is None else group.shared("passed", list[str])
    replicas: list[Server] = [] if group is None else group.servers
    databases: list[Server] = [] if group is None else group.shared("databases", list[Server])
    reads = [0] if group is None else group.shared("reads", lambda: [0])

    async def count(exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        passed.append(f"{exchange.role} {exchange.way} {exchange.method}")
        return await proceed(exchange)

    middleware = [count, MaskErrors(), CleanOutput(), SizeLimit(100_000)]
    server = Server("services", list_ttl=60, middleware=middleware)
    replicas.append(server)
    add_tools(server, replicas, passed)
    add_resources(server, reads)
    server.mount(database(databases), prefix="db")
    return server


def add_tools(server: Server, replicas: list[Server], passed: list[str]) -> None:
    """Tools that make the server do something besides answering."""

    @server.tool
    async def talk(level: Any, ctx: Context, times: int = 1) -> None:
        for _ in range(times):
            await ctx.log(level, "talking", password="hunter2", city="Lima")

    @server.tool
    async def touch(uri: str) -> None:
        server.notify_resource_updated(uri)

    @server.tool
    async def offer(name: str) -> None:
        for each in replicas:
            each.tool(lambda: None, name=name)

    @server.tool
    async def withdraw(name: str) -> None:
        for each in replicas:
            each.remove_tool(name)

    @server.tool
    async def shout(text: str) -> str:
        return f"\x1b[31m{text}\x1b[0m\u202e"

    @server.tool
    async def crash() -> None:
        raise RuntimeError("/secret/path")

    @server.tool
    async def refuse() -> None:
        raise ToolError("At most 14 days.")

    @server.tool
    async def flood() -> str:
        return "x" * 200_000

    @server.tool(name="passed")
    async def what_passed(ctx: Context, ask: bool = False) -> list[str]:
        if ask:
            await ctx.request("ping")
        return passed


def add_resources(server: Server, reads: list[int]) -> None:
    """Resources with hints, and what completes their variables."""

    @server.resource("config://app", ttl=60)
    async def config() -> str:
        reads[0] += 1
        return str(reads[0])

    @server.resource("config://open", ttl=60, public=True)
    async def public() -> str:
        return "open"

    @server.resource("config://now")
    async def now() -> str:
        reads[0] += 1
        return str(reads[0])

    @server.resource("repo://{owner}/{path*}")
    async def file(owner: str, path: str) -> str:
        return f"{path} of {owner}"

    @server.prompt
    def review(code: str, language: str = "python") -> str:
        return f"{language}: {code}"

    @server.completion("review", "language")
    async def languages(value: str, context: dict[str, str]) -> list[str]:
        return LANGUAGES if not context else [f"{language} {context['code']}" for language in LANGUAGES]

    @server.completion("repo://{owner}/{path*}", "owner")
    def owners(value: str) -> list[str]:
        return [f"owner{number}" for number in range(250)]


def database(replicas: list[Server]) -> Server:
    """A server to be mounted, with a life of its own."""

    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[str]:
        yield "alive"

    server = Server("database", lifespan=lifespan)
    replicas.append(server)

    @server.tool
    async def query(sql: str, ctx: Context) -> str:
        return f"{sql} {ctx.lifespan} {ctx.server.info.name}"

    @server.tool
    async def grow() -> None:
        for each in replicas:
            each.tool(lambda: None, name="grown")

    server.resource("table://users")(lambda: "ada")
    server.prompt(lambda table: table, name="explain")
    server.completion("explain", "table")(lambda value: ["users"])
    return server


if __name__ == "__main__":
    build().run()
