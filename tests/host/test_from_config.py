"""A host for the servers that configuration files name, also while these change."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail.client.auth.token_store import FileTokens
from dovetail.client.targets.secrets import Secrets
from dovetail.host.host import Host
from dovetail.policy.rules import Policy, Rule
from dovetail.protocol.errors import LocalError
from tests.host.hosting import PROGRAMS, QUICK, Somebody
from tests.support.tidy import nothing_left_on_the_loop
from tests.support.waiting import until

ALLOW = Policy([Rule("allow", kind="*")])


def server(*words: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(PROGRAMS / "plain.py"), *words], **more}


def write(path: Path, **servers: Any) -> None:
    path.write_text(json.dumps({"mcpServers": servers}))


def sent(host: Host, key: str) -> int:
    """How many messages a server has had: it shows whether it was started anew."""
    return len(host.traffic(key))


async def test_only_what_changed_restarts(tmp_path: Path) -> None:
    path, person = tmp_path / "mcp.json", Somebody()
    write(path, a=server(), b=server(), c=server())
    options: dict[str, Any] = {"policy": ALLOW, "folder": tmp_path / "user", "limits": QUICK}
    async with nothing_left_on_the_loop(), Host.from_config(path, on_event=person.heard, **options) as host:
        await host.ready()
        before = host.servers["a"]
        write(path, a=server(), b=server("0"), d=server())
        await until(lambda: "c" not in host.servers and "d" in host.servers)
        await until(lambda: host.servers["b"].state == host.servers["d"].state == "ready")
        assert host.servers["a"] == before
        assert {tool.server for tool in await host.tools()} == {"a", "b", "d"}
        path.write_text("{ this is no JSON")
        known = len(person.of("config"))
        await until(lambda: len(person.of("config")) > known)
        assert {tool.server for tool in await host.tools()} == {"a", "b", "d"}
        write(path, a=server(disabled=True), b=server("0"), d=server())
        await until(lambda: host.servers["a"].state == "disabled")
        assert {tool.server for tool in await host.tools()} == {"b", "d"}
    assert (tmp_path / "mcp.lock").exists()


async def test_a_changed_command_asks_again(tmp_path: Path) -> None:
    path, person = tmp_path / "mcp.json", Somebody()
    write(path, a=server())
    options: dict[str, Any] = {"on_approve": person.approve, "folder": tmp_path / "user", "limits": QUICK}
    async with Host.from_config(path, **options) as host:
        await host.ready()
        write(path, a=server("0"))
        await until(lambda: len(person.asked) == 2)
        await until(lambda: host.servers["a"].state == "ready")


async def test_a_project_may_tighten_the_rules_and_not_loosen_them(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    write(path, a=server())
    rules = tmp_path / "mcp.policy.toml"
    rules.write_text('[[rules]]\nverdict = "deny"\nkind = "launch"\n')
    options: dict[str, Any] = {"policy": ALLOW, "folder": tmp_path / "user", "watch": False}
    async with Host.from_config(path, **options) as host:
        await host.ready()
        assert "mcp.policy.toml:1" in str(host.servers["a"].error)
    rules.write_text('[[rules]]\nverdict = "allow"\nkind = "launch"\n')
    with pytest.raises(LocalError, match="may only ask or deny"):
        Host.from_config(path, **options)


def test_a_host_needs_a_file() -> None:
    with pytest.raises(LocalError, match="Name a configuration file"):
        Host.from_config()


async def test_a_secret_is_in_nothing_that_is_told_of_a_server(tmp_path: Path) -> None:
    path, person, secret = tmp_path / "mcp.json", Somebody(), "super-secret-77"
    servers = {
        "word": server("${input:t}"),
        "program": {"command": "/no/${input:t}"},
        "folder": server(cwd="/no/${input:t}"),
        "url": {"url": "http://127.0.0.1:9/${input:t}"},
    }
    path.write_text(json.dumps({"inputs": [{"type": "promptString", "id": "t", "password": True}], "servers": servers}))
    secrets = Secrets(FileTokens(tmp_path / "kept"), on_input=lambda server, wanted: secret)
    options: dict[str, Any] = {"policy": ALLOW, "folder": tmp_path / "user", "limits": QUICK, "secrets": secrets}
    async with Host.from_config(path, on_event=person.heard, **options) as host:
        await host.ready()
        told = [repr(host.servers), repr(person.events), *(repr(host.logs(key)) for key in host.servers)]
        assert "[redacted]" in "".join(told)
        assert secret not in "".join(told)
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]
