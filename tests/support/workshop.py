"""A server over HTTP whose tools the test controls: they wait, log, elicit, flood, and record how they ended.

With DOVETAIL_REPLICAS there are so many replicas of it, over a Redis of their own and behind nginx in round robin.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from dovetail import Context, Server
from dovetail.server.http.asgi_app import AsgiApp
from dovetail.server.http.http_session import HttpSession
from dovetail.server.http.router import HttpRouter
from tests.support.http import serving
from tests.support.raw_http import Site
from tests.support.replica_group import REPLICAS, behind_nginx, shared_stores


class Workshop(Server):
    """Tools wait for `go`, and note in `began` and `ended` how far they came."""

    def __init__(self, **options: Any) -> None:
        super().__init__("workshop", **options)
        self._options = options
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

    def replica(self) -> Workshop:
        """One more of the same, which shares what the test sees."""
        made = type(self)(**self._options)
        made.go, made.began, made.ended = self.go, self.began, self.ended
        return made

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
        return f"{answer.action}: {answer.content}"


class Endpoint:
    """The application of a workshop, or those of all its replicas."""

    def __init__(self, apps: Sequence[AsgiApp]) -> None:
        self.apps = apps

    @property
    def router(self) -> HttpRouter:
        """That of the only application."""
        (app,) = self.apps
        return app._router

    def health(self) -> Counter[str]:
        """The numbers of sessions and calls, of all replicas together: each counts the sessions that it has served."""
        total = Counter[str]()
        for app in self.apps:
            health = app._router.health()
            total.update(sessions=health["sessions"], calls=health["calls"])
        return total

    def live(self) -> list[HttpSession]:
        """The copies of sessions at all replicas."""
        return [session for app in self.apps for session in app._router.sessions.live()]

    @property
    def busy(self) -> bool:
        """True if a stream of a session is open."""
        return any(session.busy for session in self.live())


@asynccontextmanager
async def deployed(build: Callable[[], Server], **options: Any) -> AsyncIterator[tuple[str, Endpoint]]:
    """Serve a server on a real uvicorn, or its replicas; yields the address.

    A test that gives a store is about that store, and has one server.
    """
    async with AsyncExitStack() as stack:
        if not REPLICAS or options.get("store") is not None:
            app = build().asgi(**options)
            yield await stack.enter_async_context(serving(app)), Endpoint([app])
        else:
            stores = await stack.enter_async_context(shared_stores())
            options.pop("store", None)
            apps = [build().asgi(store=store, **options) for store in stores]
            urls = [await stack.enter_async_context(serving(app)) for app in apps]
            yield stack.enter_context(behind_nginx(urls)).url, Endpoint(apps)


@asynccontextmanager
async def workshop(server: Workshop | None = None, **options: Any) -> AsyncIterator[tuple[Workshop, Site, Endpoint]]:
    """A workshop, or its replicas; nothing of it waits any more at the end."""
    server = server or Workshop()
    replicas = itertools.chain([server], (server.replica() for _ in range(REPLICAS)))
    async with deployed(lambda: next(replicas), **options) as (url, endpoint), Site(url) as site:
        yield server, site, endpoint
        server.go.set()
