"""docs/migrating.md shows one server twice; the one of the official SDK runs too, and both answer alike."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, ToolFailed
from tests.interop.peers import PEERS, ROOT, installed

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
