"""Results of tools, resources and prompts of a server under development, as lines for the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dovetail.cli.chat.ui.contract import ChatUI
from dovetail.cli.chat.views.rendering import as_json, exact, indented, one_line
from dovetail.cli.terminal.contents import ContentRenderer
from dovetail.types.content import Text

if TYPE_CHECKING:
    from dovetail.types.prompts import PromptMessage
    from dovetail.types.tools import CallToolResult

_ROOM = 8000
"""Characters of a result that are shown."""


def show_result(ui: ChatUI, result: CallToolResult) -> None:
    """Show the result of a tool: its data, or its text, and a description of other content."""
    if result.is_error:
        ui.say(("bad", "  The tool failed:"))
    blocks: list[Any] = list(result.content)
    data = result.data
    if not result.is_error and not isinstance(data, str) and data is not None:
        ui.say(indented(_short(as_json(data))))
        blocks = [block for block in blocks if not isinstance(block, Text)]
    show_blocks(ui, blocks)
    if not result.content and data is None:
        ui.say(("dim", "  (no content)"))


def show_blocks(ui: ChatUI, blocks: Sequence[Any]) -> None:
    """Show content: text as it is, other content described."""
    for block in blocks:
        ui.say(indented(_short(ContentRenderer(None).describe(block))))


def show_messages(ui: ChatUI, messages: Sequence[PromptMessage]) -> None:
    """Show the messages of a prompt with their roles."""
    for message in messages:
        ui.say(("name", f"  {one_line(message.role)}:"))
        show_blocks(ui, [message.content])


def _short(text: str) -> str:
    shown = exact(text[:_ROOM].rstrip("\n"))
    return shown if len(text) <= _ROOM else f"{shown}\n… and {len(text) - _ROOM} characters more"
