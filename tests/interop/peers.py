"""Where the other implementations are, and how each is started; `make peers` installs them."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers"
PROGRAMS = Path(__file__).parent / "programs"

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ENVELOPE = "2026-07-28"
NEWEST_OF_ERAS = (HANDSHAKE[-1], ENVELOPE)


def installed(path: Path) -> str:
    """A path of a peer; a peer that is missing fails the test with the way to get it."""
    if not path.exists():
        name = path.relative_to(ROOT)
        pytest.fail(f"{name} is missing: `make peers` installs the other implementations", pytrace=False)
    return str(path)


def python_program(environment: str, program: str) -> list[str]:
    """A program run by the interpreter of .peers/<environment>, which has one version of the official SDK."""
    python = installed(PEERS / environment / "bin" / "python")
    return [python, "-W", "ignore", str(PROGRAMS / program)]


def tool_command(name: str, *arguments: str) -> list[str]:
    """One of the reference servers written in Python."""
    return [installed(PEERS / "tools" / "bin" / name), *arguments]


def node_program(program: str) -> list[str]:
    """A program run by Node; it finds its packages in the folder that is its first argument."""
    for package in ("client", "ext-tasks", "sdk", "server"):
        installed(PEERS / "node" / "node_modules" / "@modelcontextprotocol" / package)
    return [installed(PEERS / "node" / "bin" / "node"), str(PROGRAMS / program), str(PEERS / "node")]


def everything_command() -> list[str]:
    """The reference server that exercises the whole protocol."""
    package = PEERS / "node" / "node_modules" / "@modelcontextprotocol" / "server-everything"
    node = installed(PEERS / "node" / "bin" / "node")
    return [node, installed(package / "dist" / "index.js"), "stdio"]


def our_server(*revisions: str) -> list[str]:
    """Our own server, for the clients of others."""
    return [sys.executable, str(PROGRAMS / "dovetail_server.py"), *revisions]


def our_tasks_server() -> list[str]:
    """Our own server with tasks."""
    return [sys.executable, str(PROGRAMS / "dovetail_tasks.py")]


def inspector_command() -> list[str]:
    """The command line of the official inspector."""
    folder = PEERS / "inspector"
    launcher = folder / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build"
    return [installed(folder / "bin" / "node"), installed(launcher / "index.js"), "--cli"]


def inspector_session_command() -> list[str]:
    """The command line of the inspector whose connections last from one command to the next."""
    folder = PEERS / "inspector"
    program = folder / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients" / "mcpdo" / "build"
    return [installed(folder / "bin" / "node"), installed(program / "mcp-bin.js")]
