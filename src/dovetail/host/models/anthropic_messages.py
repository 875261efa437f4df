"""A conversation in the words of Anthropic's messages."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from dovetail.protocol.sampling import blocks_of
from dovetail.types.client_features import CreateMessageParams
from dovetail.types.content import Image, SamplingContent, Text, ToolResultContent, ToolUse
from dovetail.types.tools import Tool

from .content_blocks import Plain, plain_result, unsent
from .tool_names import sent_name

_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def request_of(params: CreateMessageParams, model: str) -> dict[str, Any]:
    """The arguments of a request, but for the temperature."""
    body: dict[str, Any] = {"model": model, "max_tokens": params.max_tokens, "messages": list(messages_of(params))}
    if params.system_prompt:
        body["system"] = params.system_prompt
    if params.stop_sequences:
        body["stop_sequences"] = params.stop_sequences
    if params.tools:
        body["tools"] = [_tool(tool) for tool in params.tools]
        if params.tool_choice is not None and params.tool_choice.mode is not None:
            body["tool_choice"] = {"type": _CHOICES[params.tool_choice.mode]}
    return body


def messages_of(params: CreateMessageParams) -> Iterator[dict[str, Any]]:
    """The messages; empty texts, which the endpoint refuses, and messages of nothing else are left out."""
    for message in params.messages:
        blocks = [block for block in map(_block, blocks_of(message.content)) if block is not None]
        if blocks:
            yield {"role": message.role, "content": blocks}


def _block(block: SamplingContent) -> dict[str, Any] | None:
    match block:
        case ToolUse():
            return {"type": "tool_use", "id": block.id, "name": sent_name(block.name), "input": block.input}
        case ToolResultContent():
            parts = [part for part in map(_part, plain_result(block)) if part is not None]
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.tool_use_id, "content": parts}
            return {**result, "is_error": True} if block.is_error else result
        case _:
            return _part(block)


def _part(part: Plain) -> dict[str, Any] | None:
    if isinstance(part, Image) and part.mime_type.lower() in _IMAGES:
        data = b64encode(part.data).decode()
        return {"type": "image", "source": {"type": "base64", "media_type": part.mime_type.lower(), "data": data}}
    words = part.text if isinstance(part, Text) else unsent(part)
    return {"type": "text", "text": words} if words.strip() else None


def _tool(tool: Tool) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": sent_name(tool.name), "input_schema": {"type": "object", **tool.input_schema}, **described}
