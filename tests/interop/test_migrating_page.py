"""docs/migrating.md shows servers twice; those of the other libraries run too, and both answer alike."""

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, RemoteError, Server, Text, ToolFailed
from dovetail.cli.migrate import migrate_source
from dovetail.server.run.transport_names import resolve_transport
from tests.interop.peers import PEERS, PROGRAMS, ROOT, installed

PAGE = (ROOT / "docs" / "migrating.md").read_text()

pytestmark = pytest.mark.interop


def written(kind: str, name: str, folder: Path) -> str:
    block = re.search(rf"^```{kind}\n(# {name}\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert block is not None
    (folder / name).write_text(block[1])
    return str(folder / name)


async def told(command: list[str]) -> dict[str, Any]:
    """What the server on the page says to each of its features."""
    steps: list[float] = []
    async with Client(command) as c:
        told = {
            "instructions": c.instructions,
            "tools": [(tool.name, tool.description) for tool in await c.tools()],
            "read only": [bool(tool.annotations and tool.annotations.read_only_hint) for tool in await c.tools()],
            "price": (await c.call("price", item="tea", count=2)).data,
            "brew": (await c.call("brew", minutes=2, progress=lambda done, *_: steps.append(done))).text,
            "steps": steps,
            "item": [getattr(contents, "text", None) for contents in (await c.read("shop://items/tea")).contents],
            "prompt": [getattr(m.content, "text", None) for m in (await c.prompt("suggest", guest="Ann")).messages],
        }
        with pytest.raises(ToolFailed, match="There is only tea"):
            await c.call("price", item="coffee")
    return told


async def test_both_servers_of_the_page_answer_alike(tmp_path: Path) -> None:
    theirs = [installed(PEERS / "mcp" / "bin" / "python"), "-W", "ignore", written("py", "before.py", tmp_path)]
    ours = [sys.executable, written("python", "after.py", tmp_path)]
    assert await told(theirs) == await told(ours)


async def test_both_low_level_servers_of_the_page_answer_alike(tmp_path: Path) -> None:
    """The decorators of the low-level server are those of version 1 of the official SDK."""
    python = installed(PEERS / "mcp1" / "bin" / "python")
    theirs = [python, "-W", "ignore", written("py", "before_low_level.py", tmp_path)]
    ours = runpy.run_path(written("python", "after_low_level.py", tmp_path))["server"]
    answers: list[Any] = []
    for target in (theirs, ours):
        async with Client(target) as c:
            [add] = [tool for tool in await c.tools() if tool.name == "add"]
            answers.append((add.description, add.input_schema, (await c.call("add", a=1, b=2)).text))
    assert answers[0] == answers[1]


def test_every_transport_of_the_page_exists() -> None:
    names = re.findall(r'run(?:_async)?\((?:transport=)?"([\w-]+)"', PAGE)
    assert {"http", "sse", "streamable-http"} <= set(names)
    for name in names:
        assert resolve_transport(name, {}) in ("stdio", "http")


def test_every_method_that_the_page_says_to_write_exists() -> None:
    """In the last column of the tables."""
    cells = [line.rsplit("|", 2)[1] for line in PAGE.splitlines() if line.startswith("| `")]
    for owner, kind in (("server", Server), ("ctx", Context), ("c", Client), ("client", Client)):
        members = {name for cell in cells for name in re.findall(rf"\b{owner}\.(\w+)", cell)}
        assert [name for name in members - {"py"} if not hasattr(kind, name)] == []  # server.py is a file


async def told_by_fastmcp(target: Any) -> dict[str, Any]:
    """What the server of the section on FastMCP says to each of its features."""
    steps: list[float] = []
    async with Client(target) as c:
        tools = {tool.name: tool for tool in await c.tools()}
        refused = await c.call("price", item="coffee", check=False)
        return {
            "instructions": c.instructions,
            "tools": [(tool.name, tool.description) for tool in tools.values()],
            "read only": bool(tools["price"].annotations and tools["price"].annotations.read_only_hint),
            "price": (await c.call("price", item="tea", count=2)).data,
            "refused": (refused.is_error, refused.text),
            "brew": (await c.call("brew", minutes=2, progress=lambda done, *_: steps.append(done))).data,
            "steps": steps,
            "show": (await c.call("show")).content,
            "item": [getattr(contents, "text", None) for contents in (await c.read("shop://items/tea")).contents],
            "prompt": [
                (m.role, getattr(m.content, "text", None)) for m in (await c.prompt("suggest", guest="Ann")).messages
            ],
        }


@pytest.mark.parametrize("environment", ["fastmcp2", "fastmcp3", "ported"])
async def test_both_servers_of_the_section_on_fastmcp_answer_alike(environment: str, tmp_path: Path) -> None:
    python = installed(PEERS / environment / "bin" / "python")
    theirs = [python, "-W", "ignore", written("py", "before_fastmcp.py", tmp_path)]
    ours = [sys.executable, written("python", "after_fastmcp.py", tmp_path)]
    assert await told_by_fastmcp(theirs) == await told_by_fastmcp(ours)


def test_the_second_server_of_the_section_on_fastmcp_is_what_migrate_writes(tmp_path: Path) -> None:
    before = Path(written("py", "before_fastmcp.py", tmp_path)).read_text()
    after = Path(written("python", "after_fastmcp.py", tmp_path)).read_text()
    assert migrate_source(before).text.replace("before_fastmcp.py", "after_fastmcp.py") == after


async def test_the_server_of_the_official_sdk_answers_alike_after_migrate(tmp_path: Path) -> None:
    theirs = written("py", "before.py", tmp_path)
    migration = migrate_source(Path(theirs).read_text())
    assert migration.notes == ()
    (tmp_path / "migrated.py").write_text(migration.text)
    original = [installed(PEERS / "mcp" / "bin" / "python"), "-W", "ignore", theirs]
    assert await told([sys.executable, str(tmp_path / "migrated.py")]) == await told(original)


async def test_low_level_servers_of_both_versions_answer_alike_after_migrate(tmp_path: Path) -> None:
    """The handlers of version 2 are reported; those of version 1 are rewritten."""
    first, second = (written("py", name, tmp_path) for name in ("before_low_level.py", "before_low_level_2.py"))
    migration = migrate_source(Path(first).read_text())
    assert migration.notes == ()
    (tmp_path / "migrated.py").write_text(migration.text)
    answers: list[Any] = []
    for command in (
        [installed(PEERS / "mcp1" / "bin" / "python"), "-W", "ignore", first],
        [installed(PEERS / "mcp" / "bin" / "python"), "-W", "ignore", second],
        [sys.executable, str(tmp_path / "migrated.py")],
    ):
        async with Client(command) as c:
            [add] = await c.tools()
            answers.append((add.name, add.description, add.input_schema, (await c.call("add", a=1, b=2)).text))
    assert answers[0] == answers[1] == answers[2]
    reasons = [note.reason for note in migrate_source(Path(second).read_text()).notes]
    assert "a server has no option on_call_tool" in reasons


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    '`"2"` for an integer': ("double", {"number": "2"}),
    "JSON in a string for a list": ("total", {"numbers": "[1]"}),
    "an unknown argument": ("double", {"number": 2, "other": 1}),
    "a missing argument": ("double", {}),
    'returns `["a", "b"]`': ("words", {}),
    'returns `{"a": 1}`': ("record", {}),
    "returns `None`": ("nothing", {}),
    '`raise ToolError("closed")`': ("refuse", {}),
    '`raise ValueError("no such city")`': ("fail", {}),
    "an unknown tool": ("missing", {}),
}
"""The rows of the table of differences, with the calls that they are about."""


async def outcome(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    """What the table says about a call."""
    try:
        result = await client.call(tool, arguments, check=False)
    except RemoteError as problem:
        return f"protocol error −{-problem.code}"
    if result.is_error and tool == "missing":
        return "error result"
    if result.is_error and tool in ("double", "total"):
        return "refused"
    texts = [block.text for block in result.content if isinstance(block, Text)]
    if any("\n" in text for text in texts):
        return "indented JSON"
    return ", ".join(f"`{text}`" for text in texts) or "no content"


@pytest.mark.parametrize(
    ("environment", "column"), [("mcp1", 1), ("mcp", 2), ("fastmcp2", 3), ("fastmcp3", 3), ("ported", 3), ("", 4)]
)
async def test_each_cell_of_the_table_of_differences_is_true(environment: str, column: int) -> None:
    program = str(PROGRAMS / "differing_server.py")
    python = installed(PEERS / environment / "bin" / "python") if environment else sys.executable
    section = PAGE.partition("## Differences in behaviour")[2].partition("\n- ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    table = {row[0]: row[column] for row in rows[2:]}
    async with Client([python, "-W", "ignore", program]) as client:
        found = {name: await outcome(client, *call) for name, call in CALLS.items()}
        [data] = (await client.read("differences://data")).contents
        found['a resource that returns `{"a": 1}`'] = f"`{data.mime_type}`"
    assert found == table
