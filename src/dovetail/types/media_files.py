"""Media read from files: `Image(path=…)`, `Audio(path=…)` and `Icon(path=…)`."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import msgspec

MEDIA_TYPES = {
    ".avif": "image/avif",
    ".bmp": "image/bmp",
    ".gif": "image/gif",
    ".ico": "image/x-icon",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".webp": "image/webp",
    ".aac": "audio/aac",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
    ".mp3": "audio/mpeg",
    ".oga": "audio/ogg",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".wav": "audio/wav",
    ".weba": "audio/webm",
}
"""Media types by suffix: a table of our own, because that of `mimetypes` differs from machine to machine."""


def media_type_of(path: str | os.PathLike[str], kind: str) -> str:
    """The media type of a file by its suffix; ValueError if it is unknown, or not of the kind `image` or `audio`."""
    suffix = Path(path).suffix.lower()
    found = MEDIA_TYPES.get(suffix)
    if found is None:
        raise ValueError(f"The media type of {os.fspath(path)} is not known by its name; say mime_type='{kind}/…'")
    if not found.startswith(f"{kind}/"):
        raise ValueError(f"{os.fspath(path)} is {found}, not {kind}; say mime_type='{kind}/…' if it is")
    return found


def data_uri(data: bytes, mime_type: str) -> str:
    """The bytes as a `data:` URI (RFC 2397)."""
    return f"data:{mime_type};base64,{base64.b64encode(data).decode('ascii')}"


class MediaMeta(msgspec.StructMeta):
    """Lets the constructor of a struct take `path=` in place of its first field.

    Only the constructor reads files. What a peer sent is decoded without it, so that no message can name a file.
    """

    def __call__(self, *args: Any, path: str | os.PathLike[str] | None = None, **fields: Any) -> Any:
        name, first = self.__name__, self.__struct_fields__[0]
        if "format" in fields:
            kind = "audio" if name == "Audio" else "image"
            raise TypeError(f"{name} has no format; say mime_type='{kind}/{fields['format']}'")
        if path is None:
            return super().__call__(*args, **fields)
        if args or first in fields:
            raise TypeError(f"{name} takes {first} or path, not both")
        kind = "audio" if name == "Audio" else "image"
        mime_type = fields.pop("mime_type", None) or media_type_of(path, kind)
        content: Any = Path(path).read_bytes()
        if first != "data":
            content = data_uri(content, mime_type)
        return super().__call__(content, mime_type, **fields)
