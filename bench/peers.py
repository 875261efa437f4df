"""The implementations that are compared, and how each is started."""

import json
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SERVERS = ROOT / "bench" / "servers"
CLIENTS = ROOT / "bench" / "clients"
PEERS = ROOT / ".peers"


class Peer(NamedTuple):
    """One implementation: its server, client and host, and the commands that import it and that import nothing.

    What is empty is not measured.
    """

    name: str
    server: list[str]
    http: list[str]
    client: list[str]
    host: list[str]
    imports: list[str]
    bare: list[str]
    version: str
    echo_only: bool = False
    """Whether its HTTP server knows no tool but `echo`, and is measured at calls of it alone."""


def find_peers() -> list[Peer]:
    """Every peer that is installed under .peers/."""
    peers = [
        _python("dovetail", "dovetail_mcp", "dovetail_http"),
        _python("mcp", "mcp", "mcp"),
        _typescript(),
        _floor(),
    ]
    return [peer for peer in peers if peer is not None]


def _python(package: str, distribution: str, with_http: str) -> Peer | None:
    """A package as it is installed for stdio, and where it has an extra for HTTP, as installed with that.

    `distribution` is its name on the package index, as in the name of its metadata folder.
    """
    python, for_http = PEERS / package / "bin" / "python", PEERS / with_http / "bin" / "python"
    found = sorted((PEERS / package).glob(f"lib/python*/site-packages/{distribution}-*.dist-info"))
    if not found:
        return None
    server = SERVERS / f"{package}_server.py"
    version = found[-1].name.removesuffix(".dist-info").rpartition("-")[2]
    # Leaving at once keeps the interpreter's own clearing up out of the figures.
    run = [str(python), "-c"]
    imports, bare = f"import os, {package}; os._exit(0)", "import os; os._exit(0)"
    client, host = CLIENTS / f"{package}_client.py", CLIENTS / f"{package}_host.py"
    return Peer(
        name=package,
        server=[str(python), str(server)],
        http=[str(for_http), str(server), "http"],
        client=[str(for_http), str(client)],
        host=[str(for_http), str(host)] if host.exists() else [],
        imports=[*run, imports],
        bare=[*run, bare],
        version=version,
    )


def _typescript() -> Peer | None:
    modules = PEERS / "node" / "node_modules"
    manifest = modules / "@modelcontextprotocol" / "server" / "package.json"
    if not manifest.exists():
        return None
    # Node looks for packages beside the script, so the script goes where they are.
    server = PEERS / "node" / "bench_server.mjs"
    server.write_bytes((SERVERS / "typescript_server.mjs").read_bytes())
    nothing = PEERS / "node" / "bench_bare.mjs"
    nothing.write_text("process.exit(0);\n")
    imports = PEERS / "node" / "bench_import.mjs"
    package = "@modelcontextprotocol/server"
    imports.write_text(f'import "{package}";\nimport "{package}/stdio";\nprocess.exit(0);\n')
    node = str(PEERS / "node" / "bin" / "node")
    version = json.loads(manifest.read_text())["version"]
    return Peer(
        name="typescript",
        server=[node, str(server)],
        http=[node, str(server), "http"],
        client=[],
        host=[],
        imports=[node, str(imports)],
        bare=[node, str(nothing)],
        version=version,
    )


def _floor() -> Peer | None:
    """No implementation, but what each of them in Python stands on: uvicorn, from the environment of Dovetail's."""
    found = sorted((PEERS / "dovetail_http").glob("lib/python*/site-packages/uvicorn-*.dist-info"))
    if not found:
        return None
    python, server = PEERS / "dovetail_http" / "bin" / "python", SERVERS / "floor_server.py"
    return Peer(
        name="floor",
        server=[],
        http=[str(python), str(server), "http"],
        client=[],
        host=[],
        imports=[],
        bare=[],
        version=found[-1].name.removesuffix(".dist-info").replace("-", " "),
        echo_only=True,
    )
