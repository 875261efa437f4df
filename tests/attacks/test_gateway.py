"""Attacks on a gateway: web pages that want it to start a program, and clients that use the ids of others."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from dovetail import Gateway, Server
from dovetail.gateway import ServerSettings
from tests.support.http import serving
from tests.support.raw_http import Answer, Site, modern, modern_headers

PROGRAM = """
import pathlib, sys
from dovetail import Server

pathlib.Path(sys.argv[1]).touch()
Server("started").run()
"""
PATHS = [
    ("POST", "/mcp"),
    ("POST", "/mcp/server/notes"),
    ("GET", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/messages"),
    ("GET", "/status"),
    ("GET", "/metrics"),
    ("GET", "/health"),
]
LIST = modern("tools/list")


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A file that exists once the program has been started."""
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path / "started"


async def touch(site: Site, method: str, path: str, **headers: str) -> Answer:
    """A request for a list, or for a page."""
    if method == "POST":
        return await site.post(LIST, {**headers, **modern_headers(LIST)}, path=path)
    return await site.ask(method, {**headers, "Accept": "text/event-stream"}, path=path)


async def test_a_web_page_makes_a_gateway_start_nothing(started: Path) -> None:
    gateway = Gateway({"notes": [sys.executable, str(started.with_name("program.py")), str(started)]})
    async with serving(gateway.asgi()) as url, Site(url) as site:
        for method, path in PATHS:
            assert (await touch(site, method, path, Origin="https://evil.example")).status == 403, path
            assert (await touch(site, method, path, Host="evil.example")).status == 421, path
        assert not started.exists()
        answer = await touch(site, "POST", "/mcp")
        assert "result" in await answer.answer() and started.exists()


async def test_no_request_changes_or_starts_a_command_that_was_not_approved(
    started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(started.parent))
    arguments = [str(started.with_name("program.py")), str(started)]
    config = started.with_name("mcp.json")
    config.write_text(json.dumps({"mcpServers": {"notes": {"command": sys.executable, "args": arguments}}}))
    gateway = Gateway.from_config(config)
    async with serving(gateway.asgi()) as url, Site(url) as site:
        assert "result" in await (await touch(site, "POST", "/mcp")).answer()
        assert "not approved" in gateway.status["servers"]["notes"]["reason"]
        for path in ("/status", "/metrics"):
            assert (await site.post({"command": "touch"}, path=path)).status == 405
        assert not started.exists()


async def test_clients_with_the_same_request_id_get_their_own_answers_over_a_shared_connection() -> None:
    server, both = Server("shared"), asyncio.Barrier(2)

    @server.tool
    async def whisper(secret: str) -> str:
        await both.wait()
        return secret

    gateway = Gateway({"notes": server}, settings={"notes": ServerSettings(shared=True)})
    async with serving(gateway.asgi()) as url, Site(url) as site:

        async def ask(secret: str) -> str:
            message = modern("tools/call", name="notes__whisper", arguments={"secret": secret})
            message["id"] = 1
            answer = await (await site.post(message, modern_headers(message))).answer()
            return answer["result"]["content"][0]["text"]

        assert await asyncio.gather(ask("ann"), ask("bob")) == ["ann", "bob"]
