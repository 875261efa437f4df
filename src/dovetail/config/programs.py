"""Programs that use MCP servers: where their configuration is, and how an entry for a server looks in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from dovetail.protocol.errors import LocalError

from .launch_spec import LaunchSpec

Product: TypeAlias = Literal[
    "dovetail",
    "claude-code",
    "cursor",
    "vscode",
    "claude-desktop",
    "codex",
    "gemini",
    "goose",
    "windsurf",
    "zed",
    "lm-studio",
    "cline",
    "amazon-q",
    "kiro",
    "opencode",
    "junie",
]
Format: TypeAlias = Literal["json", "toml", "yaml"]

GOOSE_TIMEOUT = 300
"""Seconds that Goose waits for a call; its own default when one adds an extension."""


class Places(msgspec.Struct, frozen=True):
    """The user's folders."""

    home: Path
    settings: Path
    """The folder of programs' settings: `~/.config`, `Application Support` or `AppData/Roaming`."""
    platform: str
    environ: Mapping[str, str]

    @property
    def xdg(self) -> Path:
        """`~/.config`, for programs that use it on macOS too."""
        return (
            self.settings
            if self.platform == "win32"
            else Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")
        )


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program: its files, the key path of its servers, and the form of an entry."""

    name: Product
    title: str
    files: Callable[[Places], list[Path]]
    """Its files of the user, the one to write to first unless another exists."""
    entry: Callable[[str, LaunchSpec], dict[str, Any]]
    way: tuple[str, ...] = ("mcpServers",)
    project: str | None = None
    """Its file in a project, relative to the project's folder."""
    format: Format = "json"
    restart: str = "Restart it to load the server."


def places(home: Path | None = None, platform: str = sys.platform, environ: Mapping[str, str] = os.environ) -> Places:
    """The folders of this user."""
    own = home or Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    if platform == "win32":
        settings = Path(environ.get("APPDATA") or own / "AppData" / "Roaming")
    elif platform == "darwin":
        settings = own / "Library" / "Application Support"
    else:
        settings = Path(environ.get("XDG_CONFIG_HOME") or own / ".config")
    return Places(own, settings, platform, environ)


def _command(spec: LaunchSpec, **more: Any) -> dict[str, Any]:
    """The keys that most programs have for a program to start."""
    entry: dict[str, Any] = {**more, "command": spec.command[0], "args": list(spec.command[1:])}
    return entry | ({"env": spec.env} if spec.env else {})


def _remote(spec: LaunchSpec, key: str = "url", **more: Any) -> dict[str, Any]:
    return {**more, key: spec.url} | ({"headers": spec.headers} if spec.headers else {})


def _usual(name: str, spec: LaunchSpec) -> dict[str, Any]:
    return _command(spec) if spec.url is None else _remote(spec)


def _typed(name: str, spec: LaunchSpec) -> dict[str, Any]:
    return _command(spec, type="stdio") if spec.url is None else _remote(spec, type=_web_type(spec))


def _web_type(spec: LaunchSpec) -> str:
    return "sse" if spec.kind == "sse" else "http"


def _claude_desktop(name: str, spec: LaunchSpec) -> dict[str, Any]:
    if spec.url is not None:
        raise LocalError("Claude Desktop adds servers at a URL under Settings, Connectors, not in its file")
    return _command(spec)


def _codex(name: str, spec: LaunchSpec) -> dict[str, Any]:
    if spec.url is None:
        return _command(spec)
    return {"url": spec.url} | ({"http_headers": spec.headers} if spec.headers else {})


def _gemini(name: str, spec: LaunchSpec) -> dict[str, Any]:
    return _command(spec) if spec.url is None else _remote(spec, "url" if spec.kind == "sse" else "httpUrl")


def _goose(name: str, spec: LaunchSpec) -> dict[str, Any]:
    head: dict[str, Any] = {"enabled": True, "name": name, "description": ""}
    if spec.url is not None:
        kind = "sse" if spec.kind == "sse" else "streamable_http"
        return {**head, "type": kind, "uri": spec.url, "envs": {}, "headers": spec.headers, "timeout": GOOSE_TIMEOUT}
    program, *arguments = spec.command
    return {**head, "type": "stdio", "cmd": program, "args": arguments, "envs": spec.env, "timeout": GOOSE_TIMEOUT}


def _windsurf(name: str, spec: LaunchSpec) -> dict[str, Any]:
    return _command(spec) if spec.url is None else _remote(spec, "serverUrl")


def _zed(name: str, spec: LaunchSpec) -> dict[str, Any]:
    # Versions of 2025 want the source; later ones ignore it.
    return {**_command(spec, source="custom"), "env": spec.env} if spec.url is None else _remote(spec)


def _cline(name: str, spec: LaunchSpec) -> dict[str, Any]:
    kind = "sse" if spec.kind == "sse" else "streamableHttp"
    entry = _command(spec) if spec.url is None else _remote(spec, type=kind)
    return {**entry, "disabled": False}


def _opencode(name: str, spec: LaunchSpec) -> dict[str, Any]:
    if spec.url is not None:
        return {**_remote(spec, type="remote"), "enabled": True}
    environment = {"environment": spec.env} if spec.env else {}
    return {"type": "local", "command": list(spec.command), **environment, "enabled": True}


def _desktops(at: Places) -> list[Path]:
    """Files of Claude Desktop: as a package of Windows it sees a folder of its own in place of the usual one."""
    local = Path(at.environ.get("LOCALAPPDATA") or at.home / "AppData" / "Local")
    folders = [*sorted(local.glob("Packages/Claude_*/LocalCache/Roaming/Claude")), at.settings / "Claude"]
    return [folder / "claude_desktop_config.json" for folder in folders]


def _goose_file(at: Places) -> list[Path]:
    if at.platform == "win32":
        return [at.settings / "Block" / "goose" / "config" / "config.yaml"]
    return [at.xdg / "goose" / "config.yaml"]


def _cline_files(at: Places) -> list[Path]:
    extension = at.settings / "Code" / "User" / "globalStorage" / "saoudrizwan.claude-dev" / "settings"
    own = at.environ.get("CLINE_MCP_SETTINGS_PATH")
    files = [folder / "cline_mcp_settings.json" for folder in (extension, at.home / ".cline" / "data" / "settings")]
    return [Path(own)] if own else files


PROGRAMS: tuple[Program, ...] = (
    Program(
        name="claude-code",
        title="Claude Code",
        files=lambda at: [Path(at.environ.get("CLAUDE_CONFIG_DIR") or at.home) / ".claude.json"],
        entry=_typed,
        project=".mcp.json",
        restart="It is loaded in new sessions; /mcp shows it.",
    ),
    Program(
        name="cursor",
        title="Cursor",
        files=lambda at: [at.home / ".cursor" / "mcp.json"],
        entry=_usual,
        project=".cursor/mcp.json",
        restart="Enable it under Settings, MCP.",
    ),
    Program(
        name="vscode",
        title="VS Code",
        files=lambda at: [at.settings / product / "User" / "mcp.json" for product in ("Code", "Code - Insiders")],
        entry=_typed,
        way=("servers",),
        project=".vscode/mcp.json",
        restart="Start it with the command `MCP: List Servers`.",
    ),
    Program(
        name="claude-desktop",
        title="Claude Desktop",
        files=_desktops,
        entry=_claude_desktop,
        restart="Quit and start it again to load the server.",
    ),
    Program(
        name="codex",
        title="Codex",
        files=lambda at: [Path(at.environ.get("CODEX_HOME") or at.home / ".codex") / "config.toml"],
        entry=_codex,
        way=("mcp_servers",),
        project=".codex/config.toml",
        format="toml",
        restart="It is loaded in new sessions; /mcp shows it.",
    ),
    Program(
        name="gemini",
        title="Gemini CLI",
        files=lambda at: [at.home / ".gemini" / "settings.json"],
        entry=_gemini,
        project=".gemini/settings.json",
        restart="It is loaded in new sessions; /mcp shows it.",
    ),
    Program(name="goose", title="Goose", files=_goose_file, entry=_goose, way=("extensions",), format="yaml"),
    Program(
        name="windsurf",
        title="Windsurf",
        files=lambda at: [at.home / ".codeium" / "windsurf" / "mcp_config.json"],
        entry=_windsurf,
    ),
    Program(
        name="zed",
        title="Zed",
        files=lambda at: [at.xdg / ("Zed" if at.platform == "win32" else "zed") / "settings.json"],
        entry=_zed,
        way=("context_servers",),
        project=".zed/settings.json",
        restart="It is loaded at once; the Agent Panel shows it.",
    ),
    Program(
        name="lm-studio",
        title="LM Studio",
        files=lambda at: [at.home / ".lmstudio" / "mcp.json"],
        entry=_usual,
    ),
    Program(name="cline", title="Cline", files=_cline_files, entry=_cline),
    Program(
        name="amazon-q",
        title="Amazon Q Developer",
        files=lambda at: [at.home / ".aws" / "amazonq" / "mcp.json"],
        entry=_usual,
        project=".amazonq/mcp.json",
    ),
    Program(
        name="kiro",
        title="Kiro",
        files=lambda at: [at.home / ".kiro" / "settings" / "mcp.json"],
        entry=_usual,
        project=".kiro/settings/mcp.json",
    ),
    Program(
        name="opencode",
        title="opencode",
        files=lambda at: [at.xdg / "opencode" / name for name in ("opencode.json", "opencode.jsonc")],
        entry=_opencode,
        way=("mcp",),
        project="opencode.json",
    ),
    Program(
        name="junie",
        title="JetBrains Junie",
        files=lambda at: [at.home / ".junie" / "mcp" / "mcp.json"],
        entry=_usual,
        project=".junie/mcp/mcp.json",
    ),
)
"""Programs that servers can be installed into, in the order in which their servers count."""


def find_program(name: str) -> Program:
    """The program of a name."""
    return next(program for program in PROGRAMS if program.name == name)
