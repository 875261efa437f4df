"""Blocks of content, and the contents of resources."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from .capabilities import Icon
from .serialization import Either, Value

Role = Literal["user", "assistant"]


class Annotations(Value):
    """Whom a piece of content is for, how much it matters, and when it last changed."""

    audience: list[Role] | None = None
    priority: int | float | None = None
    last_modified: str | None = None


class Text(Value, tag="text"):
    """A text."""

    text: str
    annotations: Annotations | None = None


class Image(Value, tag="image"):
    """An image; its bytes are base64 on the wire."""

    data: bytes
    mime_type: str
    annotations: Annotations | None = None


class Audio(Value, tag="audio"):
    """A sound; its bytes are base64 on the wire."""

    data: bytes
    mime_type: str
    annotations: Annotations | None = None


class ResourceLink(Value, tag="resource_link"):
    """A resource by its URI, to be read when it is wanted."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None


class _EitherContents(Either):
    __slots__ = ()

    @classmethod
    def choose(cls, obj: Mapping[str, object]) -> type[Value]:
        return BlobContents if "blob" in obj and "text" not in obj else TextContents


class TextContents(Value, _EitherContents):
    """The contents of a resource that is text."""

    uri: str
    text: str
    mime_type: str | None = None


class BlobContents(Value, _EitherContents):
    """The contents of a resource that is bytes; they are base64 on the wire."""

    uri: str
    blob: bytes
    mime_type: str | None = None


if TYPE_CHECKING:
    Contents: TypeAlias = TextContents | BlobContents
else:
    # msgspec tells structs of a union apart by tags only, and these two have none.
    Contents = _EitherContents


class Embedded(Value, tag="resource"):
    """A resource and its contents at once."""

    resource: Contents
    annotations: Annotations | None = None


Content: TypeAlias = Text | Image | Audio | ResourceLink | Embedded


class ToolUse(Value, tag="tool_use"):
    """A model's wish to have a tool called, in sampling."""

    id: str
    name: str
    input: dict[str, Any]


class ToolResultContent(Value, tag="tool_result"):
    """What came of a tool that a model wished for, in sampling."""

    tool_use_id: str
    content: list[Content] = msgspec.field(default_factory=list[Content])
    structured_content: Any = msgspec.UNSET
    is_error: bool | None = False


SamplingContent: TypeAlias = Text | Image | Audio | ToolUse | ToolResultContent
