"""Servers behind a URL, of both eras, which may be away for a while."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail import Server
from dovetail.config.entries import ServerEntry
from dovetail.config.launch_spec import LaunchSpec
from dovetail.policy.approval_questions import DefinitionQuestion, LaunchQuestion
from dovetail.policy.rules import Policy, Rule
from tests.host.hosting import QUICK, Somebody, entry, hosting
from tests.support.http import free_port, listening, serving
from tests.support.waiting import until

ALLOW = Policy([Rule("allow", kind="*")])
eras = pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])


def make_server(era: str) -> Server:
    server = Server("remote", version="1", revisions=[era])

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def grow() -> str:
        """Have one more tool."""

        async def grown() -> str:
            return "grown"

        server.tool(grown)
        return "grown"

    return server


def remote(key: str, port: int, **headers: str) -> ServerEntry:
    return ServerEntry(key=key, spec=LaunchSpec(kind="http", url=f"http://127.0.0.1:{port}/mcp", headers=headers))


@eras
async def test_a_remote_server_is_used_as_any_other(tmp_path: Path, era: str) -> None:
    port, person = free_port(), Somebody()
    async with (
        serving(make_server(era).asgi(path="/mcp"), listening(port)),
        hosting(tmp_path, remote("far", port), entry("near"), person=person) as host,
    ):
        assert (await host.call("far__add", a=1, b=2)).data == 3
        launches = {each.server: each for each in person.asked if isinstance(each, LaunchQuestion)}
        assert launches["far"].spec.url == f"http://127.0.0.1:{port}/mcp"
        await host.call("far__grow")
        await until(lambda: host.servers["far"].tools == 3)
        await until(lambda: isinstance(person.asked[-1], DefinitionQuestion))
        await until(lambda: not host.withheld())
        assert (await host.call("far__grown")).text == "grown"


@eras
async def test_a_remote_server_may_be_away_for_a_while(tmp_path: Path, era: str) -> None:
    port = free_port()
    limits = msgspec.structs.replace(QUICK, idle_seconds=0.2, ping_seconds=0.5, attempts=1000)
    async with hosting(tmp_path, remote("far", port), entry("near"), policy=ALLOW, limits=limits) as host:
        assert {tool.server for tool in await host.tools()} == {"near"}
        assert host.servers["far"].state in ("waiting", "starting", "asking")
        for _ in range(2):
            async with serving(make_server(era).asgi(path="/mcp"), listening(port)):
                await until(lambda: host.servers["far"].state == "ready")
                assert (await host.call("far__add", a=1, b=2)).data == 3
            await until(lambda: host.servers["far"].state != "ready")
            assert {tool.server for tool in await host.tools()} == {"near"}


async def test_a_server_that_refuses_us_is_not_asked_over_and_over(tmp_path: Path) -> None:
    port = free_port()
    requests: list[str] = []

    async def forbidding(scope: Any, receive: Any, send: Any) -> None:
        requests.append(scope["path"])
        await send({"type": "http.response.start", "status": 403, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    async with serving(forbidding, listening(port)), hosting(tmp_path, remote("far", port), policy=ALLOW) as host:
        await host.ready()
        assert host.servers["far"].state == "failed"
        assert host.servers["far"].restarts == 0
        assert "403" in str(host.servers["far"].error)
        assert len(requests) < 5


async def test_credentials_go_to_those_they_are_for(tmp_path: Path) -> None:
    port = free_port()
    seen: list[tuple[str, str]] = []
    server = make_server("2026-07-28").asgi(path="/mcp")

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            seen.append((headers.get(b"x-who", b"").decode(), headers.get(b"authorization", b"").decode()))
        await server(scope, receive, send)

    def auth(one: ServerEntry) -> str | None:
        return "hush" if one.key == "known" else None

    entries = (remote("known", port, **{"X-Who": "known"}), remote("other", port, **{"X-Who": "other"}))
    given = remote("given", port, **{"X-Who": "given", "Authorization": "Bearer own"})
    async with (
        serving(noting, listening(port)),
        hosting(tmp_path, *entries, given, policy=ALLOW, auth=auth) as host,
    ):
        await host.ready()
    assert set(seen) == {("known", "Bearer hush"), ("other", ""), ("given", "Bearer own")}
