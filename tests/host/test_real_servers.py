"""Servers that nobody here wrote, all at once, from the files that people have for other programs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail.host.host import Host
from dovetail.policy.rules import Policy, Rule
from tests.host.hosting import Somebody
from tests.interop.peers import PEERS, everything_command, installed, tool_command
from tests.support.tidy import nothing_left_on_the_loop

pytestmark = pytest.mark.interop

KEYS = {"everything", "files", "memory", "git", "time"}


def commands(folder: Path) -> dict[str, list[str]]:
    """How each of them is started."""
    packages = PEERS / "node" / "node_modules" / "@modelcontextprotocol"
    node = installed(PEERS / "node" / "bin" / "node")
    return {
        "everything": everything_command(),
        "files": [node, installed(packages / "server-filesystem" / "dist" / "index.js"), str(folder)],
        "memory": [node, installed(packages / "server-memory" / "dist" / "index.js")],
        "git": tool_command("mcp-server-git"),
        "time": tool_command("mcp-server-time", "--local-timezone", "UTC"),
    }


def claude_style(folder: Path) -> Path:
    """As Claude Desktop and Claude Code have it."""
    servers = {key: {"command": words[0], "args": words[1:]} for key, words in commands(folder).items()}
    servers["memory"]["env"] = {"MEMORY_FILE_PATH": "${NOTES:-" + str(folder / "memory.json") + "}"}
    path = folder / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}, indent=2))
    return path


def code_style(folder: Path) -> Path:
    """As Visual Studio Code has it, with comments, variables and a file of its own for the environment."""
    here = {
        key: [word.replace(str(folder), "${workspaceFolder}") for word in words]
        for key, words in commands(folder).items()
    }
    servers: dict[str, dict[str, Any]] = {
        key: {"type": "stdio", "command": words[0], "args": words[1:]} for key, words in here.items()
    }
    servers["memory"]["envFile"] = "${workspaceFolder}/memory.env"
    (folder / "memory.env").write_text(f"MEMORY_FILE_PATH={folder / 'memory.json'}\n")
    path = folder / ".vscode" / "mcp.json"
    path.parent.mkdir()
    path.write_text("// the servers of this project\n" + json.dumps({"inputs": [], "servers": servers}, indent=2))
    return path


@pytest.mark.parametrize("style", [claude_style, code_style])
async def test_all_at_once(tmp_path: Path, style: Callable[[Path], Path]) -> None:
    (tmp_path / "note.txt").write_text("a note")
    policy, person = Policy([Rule("allow", kind="*")]), Somebody()
    options: dict[str, Any] = {"policy": policy, "folder": tmp_path / "user", "on_event": person.heard}
    config = Host.from_config(style(tmp_path), roots=[tmp_path], watch=False, **options)
    async with nothing_left_on_the_loop(), config as host:
        await host.ready()
        states = {key: (status.state, status.error) for key, status in host.servers.items()}
        assert states == dict.fromkeys(KEYS, ("ready", None))
        offered = {tool.name: tool for tool in await host.tools()}
        assert {tool.server for tool in offered.values()} == KEYS
        held = [(each.server, each.name, each.concerns) for each in host.withheld()]
        assert held == [], "servers that mean no harm are not suspected"
        now = await host.call("time__get_current_time", timezone="UTC")
        assert "UTC" in now.text
        assert "a note" in (await host.call("files__read_text_file", path=str(tmp_path / "note.txt"))).text
        made = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
        await host.call("memory__create_entities", entities=[made])
        assert "Ada" in (await host.call("memory__read_graph")).text
        assert (tmp_path / "memory.json").exists()
        outcome = await host.call("git__git_status", repo_path=str(tmp_path), check=False)
        assert outcome.is_error
        assert "hello" in (await host.call("everything__echo", message="hello")).text
        assert {resource.server for resource in await host.resources()} >= {"everything"}
        assert any(prompt.command.startswith("/mcp.everything.") for prompt in await host.prompts())
