"""What tools and resources give, for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dovetail.cli.chat.resource_links import Link
from dovetail.cli.chat.session import Session
from dovetail.cli.terminal.contents import Keeper
from dovetail.types.content import Embedded, ResourceLink, Text, TextContents
from dovetail.types.tools import CallToolResult

from .rendering import as_json, exact, indented, one_line

_ROOM = 8000
"""Characters of one text that are shown; all of it can be saved."""


def show_result(session: Session, server: str, result: CallToolResult) -> None:
    """A result block by block; links get numbers."""
    if result.is_error:
        session.surface.say(("bad", f"  {server} says that it failed:"))
    data = result.data
    blocks: list[Any] = list(result.content)
    if isinstance(data, (dict, list)):
        session.surface.say(indented(_short(as_json(data))))
        blocks = [block for block in blocks if not isinstance(block, Text)]
    show_blocks(session, server, blocks)


def show_blocks(session: Session, server: str, blocks: Sequence[Any]) -> None:
    """Texts as they are, links with their numbers, of other things a line about them."""
    keeper = Keeper(None)
    for block in blocks:
        inner = block.resource if isinstance(block, Embedded) else block
        if isinstance(block, ResourceLink):
            number = session.links.add(Link(server, block.uri, block.title or block.name))
            session.surface.say(
                "  ", ("name", f"[{number}]"), f" {one_line(block.title or block.name)}: {one_line(block.uri)}"
            )
            continue
        if isinstance(block, Embedded):
            number = session.links.add(Link(server, inner.uri))
            session.surface.say("  ", ("name", f"[{number}]"), f" {one_line(inner.uri)}")
        text = inner.text if isinstance(inner, Text | TextContents) else keeper.describe(inner)
        session.surface.say(indented(_short(text)))


def _short(text: str) -> str:
    text = text.rstrip("\r\n")
    shown = exact(text[:_ROOM].replace("\r\n", "\n"))
    return shown if len(text) <= _ROOM else f"{shown}\n… and {len(text) - _ROOM} characters more"
