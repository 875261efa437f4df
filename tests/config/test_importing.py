"""Taking servers over from other files."""

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.config.document import ConfigDocument, read_document
from dovetail.config.importing import plan_import
from dovetail.config.reader import read_config


def put(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "own")}


def empty(tmp_path: Path) -> ConfigDocument:
    return ConfigDocument(str(tmp_path / "own" / "dovetail" / "mcp.json"), "{}")


def test_a_server_starts_here_as_it_starts_there(tmp_path: Path) -> None:
    project = tmp_path / "project"
    put(project / "x.env", {})
    (project / "x.env").write_text("A=1\n")
    servers = {
        "a": {"command": "${workspaceFolder}/a", "args": ["${workspaceFolderBasename}", "${V:-1}"], "envFile": "x.env"},
        "b": {"command": "b", "cwd": "sub"},
        "c": {"url": "https://h/${workspaceFolderBasename}", "disabled": True},
    }
    source = put(project / ".vscode" / "mcp.json", {"servers": servers})
    plan = plan_import([source], empty(tmp_path), environ(tmp_path))
    taken = {one.key: one.server for one in plan.taken}
    target = put(tmp_path / "own/dovetail/mcp.json", {"mcpServers": taken})
    there, here = read_config(source, environ(tmp_path)), read_config(target, environ(tmp_path))
    assert [entry.spec for entry in here.entries] == [entry.spec for entry in there.entries]
    assert [entry.enabled for entry in here.entries] == [True, True, False]
    assert taken["a"]["args"][1] == "${V:-1}"


def test_inside_of_a_project_nothing_needs_to_move(tmp_path: Path) -> None:
    server = {"command": "${workspaceFolder}/a"}
    source = put(tmp_path / "project/.vscode/mcp.json", {"servers": {"a": server}})
    target = ConfigDocument(str(tmp_path / "project/mcp.json"), "{}")
    [one] = plan_import([source], target, environ(tmp_path)).taken
    assert one.server == server


def test_what_is_there_already(tmp_path: Path) -> None:
    source = put(tmp_path / "x.json", {"mcpServers": {k: {"command": k} for k in "abc"}})
    other = put(tmp_path / "y.json", {"mcpServers": {"c": {"command": "other"}, "d": []}})
    target = put(tmp_path / "own/dovetail/mcp.json", {"mcpServers": {"a": {"command": "a"}, "b": {"command": "x"}}})
    plan = plan_import([source, other], read_document(target), environ(tmp_path))
    assert [one.key for one in plan.taken] == ["c"]
    reasons = {(each.key, each.origin.file): each.reason for each in plan.skipped}
    assert "has it already" in reasons["a", str(source)]
    assert "--replace" in reasons["b", str(source)]
    assert "goes before it" in reasons["c", str(other)]
    assert "no object" in reasons["d", str(other)]
    again = plan_import([source], read_document(target), environ(tmp_path), replaced=True)
    assert [one.key for one in again.taken] == ["b", "c"]


def test_inputs_come_along_under_names_of_their_own(tmp_path: Path) -> None:
    wanted = {"type": "promptString", "id": "key", "password": True}
    servers = {"a": {"url": "https://h/", "headers": {"K": "${input:key}"}}, "b": {"command": "${input:key}"}}
    source = put(tmp_path / "x.json", {"inputs": [wanted], "servers": servers})
    bad = put(
        tmp_path / "y.json",
        {"inputs": [{"type": "command", "id": "c"}], "servers": {"c": {"command": "${input:c}"}}},
    )
    target = ConfigDocument(str(tmp_path / "own/dovetail/mcp.json"), json.dumps({"inputs": [{"id": "key"}]}))
    plan = plan_import([source, bad], target, environ(tmp_path))
    a, b = plan.taken
    assert a.server["headers"] == {"K": "${input:key-2}"} and b.server["command"] == "${input:key-2}"
    assert a.inputs == b.inputs == ({**wanted, "id": "key-2"},)
    assert [each.key for each in plan.skipped] == ["c"] and "only VS Code" in plan.skipped[0].reason


def test_what_claude_keeps_of_this_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    content = {
        "mcpServers": {"u": {"command": "u"}},
        "projects": {str(project): {"mcpServers": {"l": {"command": "l"}}}},
    }
    source = put(tmp_path / "home/.claude.json", content)
    taken = {one.key: one.server for one in plan_import([source], empty(tmp_path), environ(tmp_path)).taken}
    assert taken == {"l": {"command": "l", "cwd": str(project)}, "u": {"command": "u"}}


def test_a_second_import_changes_nothing_also_where_secrets_were_extracted(tmp_path: Path) -> None:
    wanted = {"type": "promptString", "id": "key", "password": True}
    servers = {
        "a": {"command": "a", "env": {"API_KEY": "sk-0123456789abcdef01234"}},
        "b": {"url": "https://h/", "headers": {"K": "${input:key}"}},
    }
    source = put(tmp_path / "x.json", {"inputs": [wanted], "servers": servers})
    there = {
        "a": {"command": "a", "env": {"API_KEY": "${input:a-api-key}"}},
        "b": {"url": "https://h/", "headers": {"K": "${input:key-2}"}},
    }
    target = put(tmp_path / "own/dovetail/mcp.json", {"mcpServers": there})
    plan = plan_import([source], read_document(target), environ(tmp_path))
    assert not plan.taken and all("has it already" in each.reason for each in plan.skipped)
    again = plan_import([source], read_document(target), environ(tmp_path), replaced=True)
    assert [one.key for one in again.taken] == ["a", "b"]


def test_what_is_switched_off_there_is_switched_off_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    shared = put(project / ".mcp.json", {"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}})
    monkeypatch.chdir(project)
    own = put(tmp_path / "home/.claude.json", {"projects": {str(project): {"disabledMcpjsonServers": ["a"]}}})
    plan = plan_import([shared, own], empty(tmp_path), environ(tmp_path))
    assert {one.key: one.server.get("disabled", False) for one in plan.taken} == {"a": True, "b": False}
