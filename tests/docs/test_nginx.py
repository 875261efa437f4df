"""The nginx configuration in docs/http.md works with a real nginx: calls, events without delay, HTTP+SSE, WebSocket."""

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dovetail import Client, Context, Server
from tests.docs.test_blocks import listens
from tests.support.http import free_port, serving
from tests.support.raw import eventually

NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed; `.ci/nginx` says how to get it")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "http.md").read_text()
CONFIG = """
daemon off;
{user}
pid {folder}/nginx.pid;
error_log stderr;
worker_processes 1;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {server}
}}
"""


def nginx_block() -> str:
    """Return the server block of the page."""
    match = re.search(r"^```nginx\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1]


def without_tls(server: str, port: int, upstream: int) -> str:
    """Return the block for a loopback port, without TLS."""
    server = server.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};").replace(":8000", f":{upstream}")
    return re.sub(r"^ *ssl_.*\n", "", server, flags=re.MULTILINE)


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
    assert NGINX is not None
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""  # its workers must get into the folder
    config = folder / "nginx.conf"
    async with serving(server.asgi(allowed_hosts=["shop.example.com"]), root_path=root) as url:
        block = without_tls(block, port, int(url.rpartition(":")[2]))
        config.write_text(CONFIG.format(user=user, folder=folder, server=block))
        process = subprocess.Popen([NGINX, "-p", str(folder), "-e", "stderr", "-c", str(config)])
        try:
            await asyncio.to_thread(eventually, lambda: process.poll() is not None or listens(port), "nginx listens")
            assert process.poll() is None, "nginx ended"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


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
