"""Display of results of tools and contents of resources, and saving them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dovetail.cli.chat.session import ChatSession, NumberedResource
from dovetail.cli.terminal.contents import ContentRenderer, result_table
from dovetail.protocol.errors import LocalError
from dovetail.types.content import Embedded, ResourceLink, Text, TextContents
from dovetail.types.tools import CallToolResult

from .rendering import MARGIN, as_json, exact, indented, one_line

_ROOM = 8000
"""Characters of a text that are shown; saving writes all of it."""


def show_result(session: ChatSession, server: str, result: CallToolResult) -> None:
    """Show a result; links get numbers."""
    if result.is_error:
        session.ui.say(("bad", f"  {server} reports an error:"))
    data = result.data
    blocks: list[Any] = list(result.content)
    table = result_table(result, session.ui.width - len(MARGIN))
    if table is not None:
        session.ui.say(indented("\n".join(table)))
        blocks = [block for block in blocks if not isinstance(block, Text)]
    elif isinstance(data, (dict, list)):
        session.ui.say(indented(_short(as_json(data))))
        blocks = [block for block in blocks if not isinstance(block, Text)]
    show_blocks(session, server, blocks)


def show_blocks(session: ChatSession, server: str, blocks: Sequence[Any]) -> None:
    """Show text, numbered links, and a description of other blocks."""
    renderer = ContentRenderer(None)
    for block in blocks:
        inner = block.resource if isinstance(block, Embedded) else block
        if isinstance(block, ResourceLink):
            number = session.links.add(NumberedResource(server, block.uri, block.title or block.name))
            session.ui.say(
                "  ", ("name", f"[{number}]"), f" {one_line(block.title or block.name)}: {one_line(block.uri)}"
            )
            continue
        if isinstance(block, Embedded):
            number = session.links.add(NumberedResource(server, inner.uri))
            session.ui.say("  ", ("name", f"[{number}]"), f" {one_line(inner.uri)}")
        text = inner.text if isinstance(inner, Text | TextContents) else renderer.describe(inner)
        session.ui.say(indented(_short(text)))


def _short(text: str) -> str:
    text = text.rstrip("\r\n")
    shown = exact(text[:_ROOM].replace("\r\n", "\n"))
    return shown if len(text) <= _ROOM else f"{shown}\n… and {len(text) - _ROOM} characters more"


def write_new_file(name: str, content: bytes) -> Path:
    """Create a file that only its owner can read; LocalError if it exists."""
    path = Path(name).expanduser()
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
    except FileExistsError:
        raise LocalError(f"{path} already exists; choose another name") from None
    except OSError as problem:
        raise LocalError(f"{path} cannot be written: {problem.strerror}") from None
    return path
