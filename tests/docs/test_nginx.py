"""The nginx configuration in docs/http.md works with a real nginx: calls, events without delay, HTTP+SSE, WebSocket."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dovetail import Client, Context, Server
from tests.support.http import free_port, serving
from tests.support.nginx import Nginx, needs_nginx, without_tls

pytestmark = needs_nginx

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "http.md").read_text()


def nginx_block() -> str:
    """Return the server block of the page."""
    match = re.search(r"^```nginx\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1]


def loopback(server: str, port: int, upstream: int) -> str:
    """Return the block for a loopback port, without TLS."""
    return without_tls(server, port).replace(":8000", f":{upstream}")


def below(server: str) -> str:
    """Return the block as the page describes it for a prefix."""
    there, instead = (
        "location / {\n        proxy_pass http://127.0.0.1:8000;",
        "location /tools/ {\n        proxy_pass http://127.0.0.1:8000/;",
    )
    assert there in server
    return server.replace(there, instead)


@contextlib.asynccontextmanager
async def proxied(server: Server, block: str, folder: Path, root: str = "") -> AsyncIterator[str]:
    """Run nginx in front of a server; yield its address."""
    async with serving(server.asgi(allowed_hosts=["shop.example.com"]), root_path=root) as url:
        port = free_port()  # now, so that it is not the one of the server
        nginx = Nginx(folder, loopback(block, port, int(url.rpartition(":")[2])), port)
        await asyncio.to_thread(nginx.start)
        try:
            yield nginx.url
        finally:
            nginx.stop()


class Shop:
    """A server with a call that ends only after the client has received its progress."""

    def __init__(self) -> None:
        self.server = Server("shop")
        self._progress_received = asyncio.Event()
        self.server.tool(self.brew)

    async def brew(self, ctx: Context) -> str:
        await ctx.progress(1, 2)
        await self._progress_received.wait()
        return "ready"

    async def visit(self, url: str, revision: str | None) -> None:
        async with Client(url, revision=revision) as client:
            assert (await client.call("brew", progress=lambda *_: self._progress_received.set())).data == "ready"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_events_arrive_through_nginx_without_delay(revision: str, tmp_path: Path) -> None:
    shop = Shop()
    async with proxied(shop.server, nginx_block(), tmp_path) as url:
        await shop.visit(f"{url}/mcp", revision)


async def test_http_sse_works_behind_nginx(tmp_path: Path) -> None:
    shop = Shop()
    async with proxied(shop.server, nginx_block(), tmp_path) as url:
        await shop.visit(f"{url}/sse", "2024-11-05")


async def test_a_websocket_works_behind_nginx(tmp_path: Path) -> None:
    shop = Shop()
    async with proxied(shop.server, nginx_block(), tmp_path) as url:
        await shop.visit(f"{url.replace('http', 'ws')}/mcp/ws", None)


@pytest.mark.parametrize("place", ["/tools/mcp", "/tools/sse"])
async def test_a_server_below_a_prefix_of_nginx_is_reached(place: str, tmp_path: Path) -> None:
    shop = Shop()
    async with proxied(shop.server, below(nginx_block()), tmp_path, root="/tools") as url:
        await shop.visit(url + place, None)
