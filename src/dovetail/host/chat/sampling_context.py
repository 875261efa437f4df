"""Conversation messages that a sampling request may include, with the approval of the user.

2025-06-18 client/sampling, `includeContext`: what this server said and did, or all of it. The model sees it; the server
sees what the model makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dovetail.protocol.sampling import blocks_of
from dovetail.types.client_features import SamplingMessage
from dovetail.types.content import Audio, Image, SamplingContent, Text, ToolResultContent, ToolUse


def context_for(
    server: str, scope: str, messages: Sequence[SamplingMessage], owners: Mapping[str, str]
) -> list[SamplingMessage]:
    """The messages to put before those of the server; `owners` are the servers of tool uses, by their ids.

    Tools are told of in words: the model that answers a server is not offered the tools of the others.
    """
    everything = scope == "allServers"
    kept: list[SamplingMessage] = []
    for message in messages:
        blocks = [block for block in blocks_of(message.content) if everything or _owner(block, owners) == server]
        in_words: list[SamplingContent] = [word for block in blocks for word in _in_words(block)]
        if in_words:
            kept.append(SamplingMessage(role=message.role, content=in_words))
    return kept


def _owner(block: SamplingContent, owners: Mapping[str, str]) -> str | None:
    if isinstance(block, ToolUse):
        return owners.get(block.id)
    return owners.get(block.tool_use_id) if isinstance(block, ToolResultContent) else None


def _in_words(block: SamplingContent) -> list[SamplingContent]:
    if isinstance(block, ToolUse):
        return [Text(text=f"[called {block.name} with {msgspec.json.encode(block.input).decode()}]")]
    if isinstance(block, ToolResultContent):
        return [part for part in block.content if isinstance(part, (Text, Image, Audio))]
    return [block]
