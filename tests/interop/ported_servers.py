"""Published servers that the tests migrate: where each is, how it is started and called, and what is edited by hand.

The edits are patterns and texts of our own; the sources of the servers are installed by `make peers`, and stay there.
"""

from __future__ import annotations

import difflib
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from dovetail.cli.migrate.project import migrate_files, python_files, read_file
from tests.interop.peers import PEERS, ROOT, installed


class Edit(NamedTuple):
    """A replacement by hand: a pattern in a file of the package, which must occur, and the new text."""

    file: str
    pattern: str
    text: str = ""


class PortedServer(NamedTuple):
    """A published server, with calls that are to have the same results before and after."""

    package: str
    environment: str
    library: str
    arguments: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


SERVERS = (
    PortedServer(
        "mcp_server_calculator",
        "ported1",
        "mcp 1, FastMCP",
        calls=(("calculate", {"expression": "2*(3+4)"}), ("calculate", {"expression": "sqrt(16)"})),
    ),
    PortedServer(
        "mcp_server_sqlite",
        "ported1",
        "mcp 1, low-level Server",
        arguments=("--db-path", "{folder}/test.db"),
        calls=(
            ("create_table", {"query": "CREATE TABLE t (a INTEGER)"}),
            ("write_query", {"query": "INSERT INTO t VALUES (7)"}),
            ("read_query", {"query": "SELECT a FROM t"}),
            ("read_query", {"query": "DROP TABLE t"}),
            ("list_tables", {}),
            ("describe_table", {"table_name": "t"}),
            ("append_insight", {"insight": "Seven."}),
        ),
    ),
    PortedServer(
        "mcp_server_time",
        "ported",
        "mcp 2, MCPServer",
        arguments=("--local-timezone", "Europe/Berlin"),
        edits=(
            # Its middleware answers unknown tools with -32602, which needs no code here.
            Edit("server.py", r"^from mcp\.server\.context import .*\n"),
            Edit("server.py", r"(?s)^def reject_unknown_tools\(.*?(?=^def )"),
            Edit("server.py", r"^ *reject_unknown_tools\(server\)\n"),
        ),
        calls=(
            ("convert_time", {"source_timezone": "Asia/Tokyo", "time": "12:30", "target_timezone": "Asia/Kolkata"}),
            ("convert_time", {"source_timezone": "Asia/Tokyo", "time": "noon", "target_timezone": "Asia/Kolkata"}),
            ("get_current_time", {"timezone": "Nowhere/Else"}),
        ),
    ),
    PortedServer(
        "mcp_server_motherduck",
        "ported",
        "FastMCP 4",
        arguments=("--db-path", ":memory:", "--read-write", "--allow-switch-databases"),
        calls=(
            ("execute_query", {"sql": "SELECT 42 AS answer"}),
            ("execute_query", {"sql": "CREATE TABLE tea (cents INTEGER)"}),
            ("list_tables", {}),
            ("list_columns", {"table": "tea"}),
            ("execute_query", {"sql": "SELECT nothing"}),
        ),
    ),
)


class Lines(NamedTuple):
    """Lines that were removed and added."""

    removed: int
    added: int


class Port(NamedTuple):
    """A server before and after its migration, with the lines that changed."""

    before: list[str]
    after: list[str]
    by_machine: Lines
    by_hand: Lines
    notes: list[str]


def port(server: PortedServer, folder: Path) -> Port:
    """Copy a server, migrate the copy, and edit by hand what is left."""
    python = installed(PEERS / server.environment / "bin" / "python")
    [source] = (PEERS / server.environment / "lib").glob(f"python3*/site-packages/{server.package}")
    copy = folder / server.package
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    by_machine = by_hand = Lines(0, 0)
    notes: list[str] = []
    for file in migrate_files([read_file(path) for path in python_files([copy])]):
        migration = file.migration
        assert file.problem is None
        by_machine = Lines(by_machine.removed + migration.removed, by_machine.added + migration.added)
        notes += [f"{file.file.path.name}:{note.line}: {note.reason}" for note in migration.notes]
        text = migration.text
        for edit in server.edits:
            if edit.file == file.file.path.name:
                assert re.search(edit.pattern, text, re.MULTILINE), f"{edit.pattern} is not in {edit.file}"
                text = re.sub(edit.pattern, edit.text, text, flags=re.MULTILINE)
        changed = [line[0] for line in difflib.ndiff(migration.text.splitlines(), text.splitlines())]
        by_hand = Lines(by_hand.removed + changed.count("-"), by_hand.added + changed.count("+"))
        file.file.path.write_text(text, encoding=file.file.encoding)
    paths = f"PYTHONPATH={folder}:{ROOT / 'src'}"
    return Port(
        _command(python, server, folder / "before"),
        ["env", paths, *_command(python, server, folder / "after")],
        by_machine,
        by_hand,
        notes,
    )


def _command(python: str, server: PortedServer, folder: Path) -> list[str]:
    folder.mkdir()
    start = f"import {server.package}; {server.package}.main()"
    return [python, "-W", "ignore", "-c", start, *(text.format(folder=folder) for text in server.arguments)]
