"""Conversion of values to a revision that cannot carry them as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from dovetail.types.capabilities import ClientCapabilities
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult
from dovetail.types.content import (
    Audio,
    BlobContents,
    Content,
    Embedded,
    Image,
    ResourceLink,
    SamplingContent,
    Text,
    ToolResultContent,
    ToolUse,
)
from dovetail.types.serialization import Adapter, Value
from dovetail.types.tools import DATA_MARK, CallToolResult, Tool

from .wrapping import is_object_schema, wrap_schema

AUDIO_URI = "urn:dovetail:audio"


def adapters(
    structured: str, content_types: frozenset[str], known: Mapping[str, frozenset[str]]
) -> dict[type[Value], Adapter]:
    """The conversions that a revision needs, by class."""
    table: dict[type[Value], Adapter] = {}
    if structured == "object":
        table[Tool] = _with_object_schema
        table[CallToolResult] = _with_object
        table[ToolResultContent] = _with_object_in_sampling
    elif structured == "absent":
        table[CallToolResult] = _without_structured
    if "audio" not in content_types:
        table[Audio] = _audio_as_resource
    if "resource_link" not in content_types:
        table[ResourceLink] = _link_as_text
    if "tool_use" not in content_types:
        supported = content_types - {"resource"}
        table[CreateMessageParams] = lambda value: _plain_messages(value, supported)
        table[CreateMessageResult] = lambda value: _plain_answer(value, supported)
    if "url" not in known.get("ElicitationCapability", ()):
        table[ClientCapabilities] = _without_url_elicitation
    return table


def _with_object_schema(tool: Tool) -> Tool:
    schema = tool.output_schema
    if schema is None or is_object_schema(schema):
        return tool
    return replace(tool, output_schema=wrap_schema(schema))


def _with_object(result: CallToolResult) -> CallToolResult:
    structured = result.structured_content
    if structured is msgspec.UNSET or (isinstance(structured, dict) and not result.wrapped):
        return result
    return replace(result, structured_content={"result": structured}, meta=_marked(result.meta, "wrapped"))


def _with_object_in_sampling(result: ToolResultContent) -> ToolResultContent:
    structured = result.structured_content
    if structured is msgspec.UNSET or isinstance(structured, dict):
        return result
    return replace(result, structured_content={"result": structured})


def _without_structured(result: CallToolResult) -> CallToolResult:
    """Mark in which form the text block has the value; add one if there is no text."""
    if result.structured_content is msgspec.UNSET:
        return result
    value, text = result.data, result.first_text()
    if text is None:
        content = [*result.content, Text(msgspec.json.encode(value).decode())]
        return replace(result, content=content, meta=_marked(result.meta, "json"))
    if value == text:
        return replace(result, meta=_marked(result.meta, "text"))
    try:
        same = msgspec.json.decode(text) == value
    except (msgspec.DecodeError, RecursionError):
        same = False
    return replace(result, meta=_marked(result.meta, "json")) if same else result


def _marked(meta: dict[str, Any] | None, mark: str) -> dict[str, Any]:
    return {**(meta or {}), DATA_MARK: mark}


def _audio_as_resource(audio: Audio) -> Embedded:
    blob = BlobContents(AUDIO_URI, audio.data, audio.mime_type)
    return Embedded(blob, audio.annotations, meta=audio.meta, extra=audio.extra)


def _link_as_text(link: ResourceLink) -> Text:
    text = f"{link.title or link.name}: {link.uri}"
    if link.description:
        text += f"\n{link.description}"
    return Text(text, link.annotations, meta=link.meta, extra=link.extra)


def _plain_messages(params: CreateMessageParams, supported: frozenset[str]) -> CreateMessageParams:
    """Before sampling with tools, a message had one block: several blocks become several messages."""
    messages = [
        replace(message, content=_plain_block(block, supported))
        for message in params.messages
        for block in _blocks(message.content)
    ]
    return replace(params, messages=messages)


def _plain_answer(result: CreateMessageResult, supported: frozenset[str]) -> CreateMessageResult:
    blocks = [_plain_block(block, supported) for block in _blocks(result.content)]
    if len(blocks) == 1:
        return replace(result, content=blocks[0])
    texts = [block.text if isinstance(block, Text) else _named(block) for block in blocks]
    return replace(result, content=Text("\n".join(texts)))


def _blocks(content: SamplingContent | list[SamplingContent]) -> list[SamplingContent]:
    return content if isinstance(content, list) else [content]


def _plain_block(block: SamplingContent, supported: frozenset[str]) -> SamplingContent:
    if isinstance(block, Text | Image) or (isinstance(block, Audio) and "audio" in supported):
        return block
    return Text(_named(block))


def _named(block: SamplingContent | Content) -> str:
    """A block as text, for a peer that does not support its type."""
    if isinstance(block, Text):
        return block.text
    if isinstance(block, ToolUse):
        return f"[calls {block.name} with {msgspec.json.encode(block.input).decode()}]"
    if isinstance(block, ToolResultContent):
        return f"[got {'; '.join(_named(part) for part in block.content)}]"
    if isinstance(block, Image | Audio):
        return f"[{block.mime_type}, {len(block.data)} bytes]"
    return f"[{block.uri if isinstance(block, ResourceLink) else block.resource.uri}]"


def _without_url_elicitation(capabilities: ClientCapabilities) -> ClientCapabilities:
    """Drop elicitation of a client that supports only URLs: on older revisions the capability means forms."""
    elicitation = capabilities.elicitation
    if elicitation is None or elicitation.url is None or elicitation.form is not None:
        return capabilities
    return replace(capabilities, elicitation=None)
