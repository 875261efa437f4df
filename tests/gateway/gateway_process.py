"""`dovetail gateway` in a process of its own, with servers that work and servers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from dovetail import Client
from dovetail.protocol.revisions import REVISIONS
from tests.support.http_process import HttpProcess
from tests.support.raw import children

ODD = Path(__file__).parent / "servers" / "odd.py"


def odd(way: str, *arguments: str, **gateway: Any) -> dict[str, Any]:
    """The entry of a server that behaves in a way of servers/odd.py; `gateway` are its settings."""
    entry = {"command": sys.executable, "args": [str(ODD), way, *arguments]}
    return {**entry, "gateway": gateway} if gateway else entry


def configuration(folder: Path, servers: Mapping[str, Any], **gateway: Any) -> Path:
    """Write a configuration file."""
    file = folder / "mcp.json"
    written = folder / "mcp.json.new"
    written.write_text(json.dumps({"mcpServers": servers, **({"gateway": gateway} if gateway else {})}))
    written.rename(file)
    return file


class Reachable(Protocol):
    """What has a URL."""

    @property
    def url(self) -> str: ...


class GatewayProcess(HttpProcess):
    """`dovetail gateway FILE` at a free port; approvals are those of a folder of its own."""

    def __init__(self, file: Path, *options: str, trust: bool = True, port: int = 0) -> None:
        command = [sys.executable, "-m", "dovetail.cli", "gateway", file, "--port", str(port), "--log-level", "warning"]
        given = [*options, "--trust"] if trust else list(options)
        super().__init__(
            file, *given, command=command, environment={"XDG_CONFIG_HOME": str(file.parent / "user")}, port=port
        )

    @property
    def endpoint(self) -> str:
        return f"{self.url}/mcp"

    @property
    def servers(self) -> list[int]:
        """The processes of its servers that run."""
        return children(self.process.pid)

    def get(self, path: str, accept: str = "*/*") -> str:
        """The body of a page."""
        request = urllib.request.Request(self.url + path, headers={"accept": accept})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()

    def status(self) -> dict[str, Any]:
        """What `/status` says of each server."""
        return json.loads(self.get("/status"))["servers"]


@contextlib.asynccontextmanager
async def client_of(gateway: Reachable, path: str = "/mcp", **options: Any) -> AsyncIterator[Client]:
    """A client of a gateway."""
    async with Client(gateway.url + path, timeout=30, **options) as client:
        yield client


async def call(client: Client, name: str, **arguments: Any) -> str:
    """The text that a tool returns."""
    return (await client.call(name, **arguments)).text


async def names(client: Client) -> tuple[set[str], dict[str, Any]]:
    """The names of the tools, and what the list says of servers that are missing."""
    page = await client.request("tools/list")
    return {tool["name"] for tool in page["tools"]}, page.get("_meta", {}).get("dovetail/servers", {})


class Subscribed:
    """The trace of a client, which tells when its subscription is open."""

    def __init__(self, revision: str) -> None:
        self._event = asyncio.Event()
        self._needs_acknowledgement = REVISIONS[revision].era == "envelope"

    def __call__(self, direction: str, data: bytes) -> None:
        if b"subscriptions/acknowledged" in data:
            self._event.set()

    async def wait(self, client: Client) -> None:
        """Wait for the acknowledgement, or, where notifications need none, for the answer to a later request."""
        if self._needs_acknowledgement:
            await self._event.wait()
        else:
            await client.ping()


class Stopwatch:
    """The seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began
