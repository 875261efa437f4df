"""A host whose files change while it works."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from dovetail.host.host import Host
from dovetail.policy.rules import Policy, Rule
from tests.host.hosting import PROGRAMS, QUICK, Somebody
from tests.support.tidy import nothing_left_on_the_loop
from tests.support.waiting import until

ALLOW = Policy([Rule("allow", kind="*")])


def write(path: Path, **servers: dict[str, Any]) -> None:
    plain = {"command": sys.executable, "args": [str(PROGRAMS / "plain.py")]}
    path.write_text(json.dumps({"mcpServers": {key: {**plain, **more} for key, more in servers.items()}}))


async def test_a_call_of_a_server_that_did_not_change_goes_on(tmp_path: Path) -> None:
    path, person = tmp_path / "mcp.json", Somebody()
    write(path, a={}, b={})
    options: dict[str, Any] = {"policy": ALLOW, "folder": tmp_path / "user", "limits": QUICK}
    async with nothing_left_on_the_loop(), Host.from_config(path, on_event=person.heard, **options) as host:
        await host.ready()
        waiting = asyncio.create_task(host.call("a__wait", seconds=3))
        await until(lambda: bool(person.of("progress")))
        write(path, a={}, b={"env": {"MODE": "new"}})
        await until(lambda: any("changed" in str(event.detail) for event in person.of("config")))
        assert not waiting.done()
        assert (await host.call("b__environment", name="MODE")).text == "new"
        assert (await waiting).text == "waited"


async def test_a_file_that_appears_later_is_taken_up(tmp_path: Path) -> None:
    path, own, person = tmp_path / "mcp.json", tmp_path / "own.json", Somebody()
    write(path, a={"sandboxEnabled": True})
    options: dict[str, Any] = {"policy": ALLOW, "folder": tmp_path / "user", "limits": QUICK, "optional": [own]}
    async with nothing_left_on_the_loop(), Host.from_config(path, on_event=person.heard, **options) as host:
        assert "no sandbox" in str(person.of("config")[0].detail)
        await host.ready()
        write(own, b={})
        await until(lambda: "b" in host.servers)
        assert {tool.server for tool in await host.tools()} == {"a", "b"}
