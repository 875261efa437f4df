"""A conversation in the words of OpenAI's chat completions."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from dovetail.protocol.sampling import blocks_of
from dovetail.types.client_features import CreateMessageParams, SamplingMessage
from dovetail.types.content import Audio, Image, SamplingContent, Text, ToolResultContent, ToolUse
from dovetail.types.tools import Tool

from .content_blocks import Plain, media_type, plain_result, texts, unsent
from .tool_names import sent_name

FAILED = "[The tool failed.]"
"""Begins the result of a call that failed, since there is no field for it."""

_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def request_of(params: CreateMessageParams, model: str, limit: str, temperature: float | None) -> dict[str, Any]:
    """The body of a request; `limit` is the name of the field for the most tokens to write."""
    body: dict[str, Any] = {
        "model": model,
        "messages": list(messages_of(params)),
        limit: params.max_tokens,
        "stream_options": {"include_usage": True},
    }
    if temperature is not None:
        body["temperature"] = temperature
    if params.stop_sequences:
        body["stop"] = params.stop_sequences
    if params.tools:
        body["tools"] = [_tool(tool) for tool in params.tools]
        if params.tool_choice is not None and params.tool_choice.mode is not None:
            body["tool_choice"] = params.tool_choice.mode
    return body


def messages_of(params: CreateMessageParams) -> Iterator[dict[str, Any]]:
    """The system prompt and the messages; those that hold nothing are left out."""
    if params.system_prompt:
        yield {"role": "system", "content": params.system_prompt}
    for message in params.messages:
        blocks = blocks_of(message.content)
        results = [block for block in blocks if isinstance(block, ToolResultContent)]
        if results:
            yield from _results(results)
        elif message.role == "assistant":
            yield from _said(blocks)
        else:
            yield from _asked(message)


def _asked(message: SamplingMessage) -> Iterator[dict[str, Any]]:
    parts = [block for block in blocks_of(message.content) if isinstance(block, Text | Image | Audio)]
    if content := _content(parts):
        yield {"role": "user", "content": content}


def _said(blocks: Iterable[SamplingContent]) -> Iterator[dict[str, Any]]:
    blocks = list(blocks)
    words = texts(block for block in blocks if isinstance(block, Text | Image | Audio))
    uses = [_use(block) for block in blocks if isinstance(block, ToolUse)]
    if words or uses:
        yield {"role": "assistant", "content": words or None, **({"tool_calls": uses} if uses else {})}


def _results(results: Iterable[ToolResultContent]) -> Iterator[dict[str, Any]]:
    """One message a result; what is no text follows after all of them, because they hold text only."""
    more: list[Plain] = []
    for result in results:
        parts = plain_result(result)
        shown = [part for part in parts if not isinstance(part, Text) and _part(part)["type"] != "text"]
        words = texts(part for part in parts if part not in shown)
        if shown:
            more += [Text(text=f"[What the tool use {result.tool_use_id} gave besides text:]"), *shown]
        failed = f"{FAILED}\n{words}" if result.is_error else words
        yield {"role": "tool", "tool_call_id": result.tool_use_id, "content": failed}
    if more:
        yield {"role": "user", "content": [_part(part) for part in more]}


def _content(parts: list[Plain]) -> str | list[dict[str, Any]]:
    """One text where there is nothing else: some local servers know no parts."""
    if all(isinstance(part, Text) for part in parts):
        return texts(part for part in parts if not isinstance(part, Text) or part.text)
    return [_part(part) for part in parts if not isinstance(part, Text) or part.text]


def _part(part: Plain) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    data = b64encode(part.data).decode()
    kind = media_type(part.mime_type)
    if isinstance(part, Image) and kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
    if isinstance(part, Audio) and kind in _SOUNDS:
        return {"type": "input_audio", "input_audio": {"data": data, "format": _SOUNDS[kind]}}
    return {"type": "text", "text": unsent(part)}


def _use(use: ToolUse) -> dict[str, Any]:
    arguments = msgspec.json.encode(use.input).decode()
    return {"id": use.id, "type": "function", "function": {"name": sent_name(use.name), "arguments": arguments}}


def _tool(tool: Tool) -> dict[str, Any]:
    parameters: dict[str, Any] = {"properties": {}, **tool.input_schema}  # an object without them is refused
    function: dict[str, Any] = {"name": sent_name(tool.name), "parameters": parameters}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}
