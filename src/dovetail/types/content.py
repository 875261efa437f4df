"""Content blocks, and contents of resources."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import msgspec

from .capabilities import Icon
from .media_files import MediaMeta, data_uri
from .serialization import UntaggedUnion, Value

Role = Literal["user", "assistant"]


class Annotations(Value):
    """Audience, priority and last modification of a content block or a resource."""

    audience: list[Role] | None = None
    priority: int | float | None = None
    last_modified: str | None = None


class Text(Value, tag="text"):
    """A text block."""

    text: str
    annotations: Annotations | None = None


class Media(Value, metaclass=MediaMeta):
    """Bytes of a media type, base64 on the wire: an `Image` or an `Audio`."""

    data: bytes
    mime_type: str
    annotations: Annotations | None = None

    if TYPE_CHECKING:  # the second form is that of the metaclass

        @overload
        def __init__(
            self,
            data: bytes,
            mime_type: str,
            annotations: Annotations | None = None,
            *,
            meta: dict[str, Any] | None = None,
            extra: dict[str, Any] = ...,
        ) -> None: ...

        @overload
        def __init__(
            self,
            *,
            path: str | os.PathLike[str],
            mime_type: str | None = None,
            annotations: Annotations | None = None,
            meta: dict[str, Any] | None = None,
            extra: dict[str, Any] = ...,
        ) -> None: ...

        def __init__(self, *args: Any, **fields: Any) -> None: ...

    @property
    def data_uri(self) -> str:
        """The bytes as a `data:` URI, which an `Icon` or a web page takes."""
        return data_uri(self.data, self.mime_type)


class Image(Media, tag="image"):
    """An image; `Image(path=…)` reads a file, and knows the media type by its suffix."""


class Audio(Media, tag="audio"):
    """A sound; `Audio(path=…)` reads a file, and knows the media type by its suffix."""


class ResourceLink(Value, tag="resource_link"):
    """A link to a resource, which the client can read by its URI."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None


class _ContentsUnion(UntaggedUnion):
    __slots__ = ()

    @classmethod
    def select_type(cls, obj: Mapping[str, object]) -> type[Value]:
        return BlobContents if "blob" in obj and "text" not in obj else TextContents


class TextContents(Value, _ContentsUnion):
    """The contents of a text resource."""

    uri: str
    text: str
    mime_type: str | None = None


class BlobContents(Value, _ContentsUnion):
    """The contents of a binary resource; they are base64 on the wire."""

    uri: str
    blob: bytes
    mime_type: str | None = None


if TYPE_CHECKING:
    Contents: TypeAlias = TextContents | BlobContents
else:
    # msgspec distinguishes structs of a union by tags only, and these two have none.
    Contents = _ContentsUnion


class Embedded(Value, tag="resource"):
    """A resource embedded with its contents."""

    resource: Contents
    annotations: Annotations | None = None


Content: TypeAlias = Text | Image | Audio | ResourceLink | Embedded


class ToolUse(Value, tag="tool_use"):
    """A tool call that a model requests, in sampling."""

    id: str
    name: str
    input: dict[str, Any]


class ToolResultContent(Value, tag="tool_result"):
    """The result of a tool call that a model requested, in sampling."""

    tool_use_id: str
    content: list[Content] = msgspec.field(default_factory=list[Content])
    structured_content: Any = msgspec.UNSET
    is_error: bool | None = False


SamplingContent: TypeAlias = Text | Image | Audio | ToolUse | ToolResultContent
