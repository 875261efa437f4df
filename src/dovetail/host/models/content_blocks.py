"""Any content as what every model takes: texts, images and sounds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from dovetail.types.content import Audio, Content, Embedded, Image, ResourceLink, Text, TextContents, ToolResultContent

_MEDIA_TYPE = re.compile(r"[A-Za-z0-9.+_-]{1,60}/[A-Za-z0-9.+_-]{1,60}")

Plain: TypeAlias = Text | Image | Audio


def plain(block: Content) -> Plain:
    """The block itself, or a text or image in its place."""
    match block:
        case ResourceLink():
            return Text(text=_link(block))
        case Embedded():
            return _contents(block)
        case _:
            return block


def plain_result(result: ToolResultContent) -> list[Plain]:
    """The content of a tool result, or its structured content where there is no other."""
    blocks = [plain(block) for block in result.content]
    if blocks or result.structured_content is msgspec.UNSET:
        return blocks
    return [Text(text=msgspec.json.encode(result.structured_content).decode())]


def texts(blocks: Iterable[Plain]) -> str:
    """All texts, each a paragraph, and a word on what is no text."""
    return "\n\n".join(block.text if isinstance(block, Text) else unsent(block) for block in blocks)


def unsent(block: Image | Audio) -> str:
    """A text in place of content that a model cannot take."""
    kind = "image" if isinstance(block, Image) else "sound"
    article = "an" if kind == "image" else "a"
    return f"[Here is {article} {kind} ({media_type(block.mime_type)}) that this model cannot be given.]"


def media_type(given: str) -> str:
    """A media type in lower case, if it is one: whoever sends it chooses it, and could put any words there."""
    return given.lower() if _MEDIA_TYPE.fullmatch(given) else "an unknown type"


def _link(link: ResourceLink) -> str:
    about = [link.title or link.name, link.mime_type, None if link.size is None else f"{link.size} bytes"]
    line = f"[Resource {link.uri}: {', '.join(part for part in about if part)}]"
    return f"{line}\n{link.description}" if link.description else line


def _contents(block: Embedded) -> Plain:
    held = block.resource
    if isinstance(held, TextContents):
        return Text(text=f"[Resource {held.uri}]\n{held.text}")
    kind = held.mime_type or "application/octet-stream"
    if kind.startswith("image/"):
        return Image(data=held.blob, mime_type=kind)
    if kind.startswith("audio/"):
        return Audio(data=held.blob, mime_type=kind)
    return Text(text=f"[Resource {held.uri}: {len(held.blob)} bytes of {kind}]")
