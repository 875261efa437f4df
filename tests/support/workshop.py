"""A server over HTTP whose tools the test controls: they wait, log, elicit, flood, and record how they ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dovetail import Context, Server
from dovetail.server.http.asgi_app import AsgiApp
from tests.support.http import serving
from tests.support.raw_http import Site


class Workshop(Server):
    """Tools wait for `go`, and note in `began` and `ended` how far they came."""

    def __init__(self, **options: Any) -> None:
        super().__init__("workshop", **options)
        self.go = asyncio.Event()
        self.began: list[str] = []
        self.ended: list[str] = []
        for tool in (
            self.echo,
            self.wait,
            self.tell,
            self.tell_and_wait,
            self.log,
            self.ask,
            self.pace,
            self.who,
            self.let_go,
        ):
            self.tool(tool)
        self.resource("config://app")(lambda: "on")
        self.prompt(name="review")(lambda: "please")

    async def echo(self, text: str) -> str:
        return text

    async def who(self, ctx: Context) -> str:
        return f"{ctx.principal} {ctx.revision}"

    async def wait(self, name: str = "wait") -> str:
        self.began.append(name)
        try:
            await self.go.wait()
        finally:
            self.ended.append(name)
        return "waited"

    async def tell(self, count: int, ctx: Context) -> str:
        """Tell of progress, all at once."""
        for number in range(count):
            await ctx.progress(number + 1, count)
        return "told"

    async def pace(self, count: int, ctx: Context) -> str:
        """Tell of progress bit by bit, from when the test lets it, so that others get their turn in between."""
        await ctx.progress(0.5)
        self.began.append("pace")
        await self.go.wait()
        for number in range(count):
            await ctx.progress(number + 1)
            await asyncio.sleep(0)
        self.ended.append("pace")
        return "paced"

    async def tell_and_wait(self, ctx: Context) -> str:
        await ctx.progress(1, 2, "half way")
        self.began.append("tell_and_wait")
        try:
            await self.go.wait()
        finally:
            self.ended.append("tell_and_wait")
            await ctx.progress(2, 2, "too late")
        return "told"

    async def log(self, ctx: Context) -> str:
        await ctx.log.info("first", n=1)
        return "logged"

    async def let_go(self, ctx: Context) -> str:
        """Let the connection go before anything was said, and end when the test says so."""
        ctx.close_stream(retry=0.25)
        self.began.append("let_go")
        await self.go.wait()
        return "came back"

    async def ask(self, question: str, ctx: Context) -> str:
        answer = await ctx.elicit(question, str)
        return f"{answer.action}: {answer.data}"


@asynccontextmanager
async def workshop(server: Workshop | None = None, **options: Any) -> AsyncIterator[tuple[Workshop, Site, AsgiApp]]:
    """A workshop on a real uvicorn; nothing of it waits any more at the end."""
    server = server or Workshop()
    endpoint = server.asgi(**options)
    async with serving(endpoint) as url, Site(url) as site:
        yield server, site, endpoint
        server.go.set()
