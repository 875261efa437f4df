"""What a request for a model's answer must look like, and which model it would like."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dovetail.types.client_features import ModelHint, SamplingMessage
from dovetail.types.content import SamplingContent, ToolResultContent, ToolUse

from .errors import INVALID_PARAMS, ProtocolError


def match_model(hints: Iterable[ModelHint | str] | None, available: Sequence[str]) -> str | None:
    """The first of the models available that a hint names, in whole or in part; None when no hint does.

    Hints are tried in their order, models in theirs, so put the one to prefer first (sampling, "Model
    Hints"). Upper and lower case are the same.
    """
    for hint in hints or ():
        wanted = (hint if isinstance(hint, str) else hint.name or "").casefold()
        if not wanted:
            continue
        names = [(name, name.casefold()) for name in available]
        found = [name for name, folded in names if folded == wanted] or [
            name for name, folded in names if wanted in folded
        ]
        if found:
            return found[0]
    return None


def check_conversation(messages: Sequence[SamplingMessage]) -> None:
    """Refuse a conversation whose tool uses and tool results do not pair up (−32602).

    Sampling, "Message Content Constraints": a message with results holds nothing else, and the message
    after one with tool uses holds the result of each of them.
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
    """The blocks of a message, which may hold one or several."""
    return content if isinstance(content, list) else [content]
