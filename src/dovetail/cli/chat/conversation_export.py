"""A conversation as Markdown, or as JSON, for `/export`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from dovetail.cli.terminal.contents import ContentRenderer
from dovetail.host.chat.provenance import unframed
from dovetail.protocol.sampling import blocks_of
from dovetail.types.client_features import SamplingMessage
from dovetail.types.content import Text, ToolResultContent, ToolUse
from dovetail.types.serialization import dump

_FENCE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)


def as_json(messages: Sequence[SamplingMessage], model: str) -> bytes:
    """The messages as the protocol writes them, with the name of the model."""
    content = {"model": model, "messages": [dump(message) for message in messages]}
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def as_markdown(messages: Sequence[SamplingMessage], model: str, title: str) -> str:
    """The conversation for readers: texts as they are, calls and results of tools as code blocks."""
    parts = [f"# {title or 'Conversation'}", f"Model: {model}"]
    speaker = ""
    for message in messages:
        blocks = blocks_of(message.content)
        results_only = all(isinstance(block, ToolResultContent) for block in blocks)
        now = speaker if results_only else {"user": "User", "assistant": "Assistant"}[message.role]
        if now != speaker:
            speaker = now
            parts.append(f"## {speaker}")
        parts += [text for text in (_block(block) for block in blocks) if text]
    return "\n\n".join(parts) + "\n"


def _block(block: Any) -> str:
    if isinstance(block, Text):
        return unframed(block.text).strip()
    if isinstance(block, ToolUse):
        arguments = msgspec.json.format(msgspec.json.encode(block.input), indent=2).decode()
        return f"**Calls `{block.name}`**\n\n{_fenced(arguments, 'json')}"
    if isinstance(block, ToolResultContent):
        texts = [_block(part) for part in block.content]
        head = "**Error**" if block.is_error else "**Result**"
        return f"{head}\n\n{_fenced(chr(10).join(texts))}"
    return f"*{ContentRenderer(None).describe(block)}*"


def _fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any fence in the text."""
    fence = "`" * max(3, *(len(found) + 1 for found in _FENCE.findall(text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"
