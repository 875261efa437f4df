"""Our server inside a Starlette application, under a path of its own, with no lifespan passed on."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from dovetail import Client, Context, Server
from tests.interop.peers import ENVELOPE, HANDSHAKE
from tests.support.http import serving

pytestmark = pytest.mark.interop


def build(name: str) -> Server:
    server = Server(name)

    @server.tool
    async def ask(ctx: Context) -> str:
        return f"{name} heard {(await ctx.elicit('Who?', str)).data}"

    return server


def shop(began: list[str] | None = None) -> Starlette:
    """An application with a page of its own and two servers; its lifespan knows of neither."""

    async def page(_: Request) -> PlainTextResponse:
        return PlainTextResponse("the shop")

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if began is not None:
            began.append("shop")
        yield

    routes = [
        Route("/", page),
        Mount("/deep/in/stock", app=build("stock").asgi()),
        Mount("/tills", app=build("tills").asgi(path="/")),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def client(url: str, revision: str | None) -> Client:
    def answer(_: Any) -> dict[str, str]:
        return {"value": "Ann"}

    return Client(url, revision=revision, on_elicit=answer)


@pytest.mark.parametrize("lifespan", ["auto", "off"])
@pytest.mark.parametrize("revision", [None, *HANDSHAKE[2:], ENVELOPE])
async def test_a_server_is_mounted_under_a_path(revision: str | None, lifespan: str) -> None:
    """Also where the web server runs no lifespan at all."""
    began: list[str] = []
    async with serving(shop(began), lifespan=lifespan) as url:
        async with client(f"{url}/deep/in/stock/mcp", revision) as stock, client(f"{url}/tills/", revision) as tills:
            assert (await stock.call("ask")).text == "stock heard Ann"
            assert (await tills.call("ask")).text == "tills heard Ann"
        async with aiohttp.ClientSession() as http, http.get(url) as response:
            assert await response.text() == "the shop"
    assert began == (["shop"] if lifespan == "auto" else [])


async def test_the_two_endpoints_under_a_path() -> None:
    """What the endpoint event names must lie under the path as well."""
    async with serving(shop()) as url, Client(f"{url}/deep/in/stock/sse", revision=HANDSHAKE[0]) as stock:
        assert [tool.name for tool in await stock.tools()] == ["ask"]


async def test_a_websocket_is_mounted_under_a_path() -> None:
    async with serving(shop()) as url:
        address = url.replace("http://", "ws://") + "/deep/in/stock/mcp/ws"
        async with client(address, ENVELOPE) as modern, client(address, HANDSHAKE[-1]) as older:
            assert (await modern.call("ask")).text == "stock heard Ann"
            assert (await older.call("ask")).text == "stock heard Ann"
