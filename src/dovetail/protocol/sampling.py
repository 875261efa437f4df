"""Sampling: validation of the conversation, and choice of a model by hints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dovetail.types.client_features import ModelHint, SamplingMessage
from dovetail.types.content import SamplingContent, ToolResultContent, ToolUse

from .errors import INVALID_PARAMS, ProtocolError


def match_model(hints: Iterable[ModelHint | str] | None, available: Sequence[str]) -> str | None:
    """The first available model that a hint names, in whole or in part; None if no hint does.

    Hints are tried in their order, then models in theirs, so put the preferred model first (sampling, "Model
    Hints"). Case is ignored.
    """
    for hint in hints or ():
        wanted = (hint if isinstance(hint, str) else hint.name or "").casefold()
        if not wanted:
            continue
        names = [(name, name.casefold()) for name in available]
        matches = [name for name, folded in names if folded == wanted] or [
            name for name, folded in names if wanted in folded
        ]
        if matches:
            return matches[0]
    return None


def check_conversation(messages: Sequence[SamplingMessage]) -> None:
    """Refuse a conversation whose tool uses and tool results do not match (−32602).

    Sampling, "Message Content Constraints": a message with tool results contains nothing else, and the message after
    one with tool uses contains the result of each of them.
    """
    open_uses: set[str] = set()
    for message in messages:
        blocks = blocks_of(message.content)
        results = [block.tool_use_id for block in blocks if isinstance(block, ToolResultContent)]
        if results and len(results) < len(blocks):
            raise ProtocolError(INVALID_PARAMS, "Tool results mixed with other content")
        if missing := open_uses - set(results):
            raise ProtocolError(INVALID_PARAMS, f"Tool result missing in request: {min(missing)}")
        if unknown := set(results) - open_uses:
            raise ProtocolError(INVALID_PARAMS, f"Tool result without a tool use: {min(unknown)}")
        open_uses = {block.id for block in blocks if isinstance(block, ToolUse)}
    if open_uses:
        raise ProtocolError(INVALID_PARAMS, f"Tool result missing in request: {min(open_uses)}")


def blocks_of(content: SamplingContent | list[SamplingContent]) -> list[SamplingContent]:
    """The content blocks of a message, which has one block or a list of them."""
    return content if isinstance(content, list) else [content]
