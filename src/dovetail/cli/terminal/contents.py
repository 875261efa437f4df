"""Content blocks as text; binary data is described in one line, or saved to files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.types.content import Audio, BlobContents, Embedded, Image, ResourceLink, Text, TextContents

if TYPE_CHECKING:
    from collections.abc import Sequence

_KINDS: dict[type, str] = {Image: "image", Audio: "audio", BlobContents: "blob"}


class ContentRenderer:
    """Renders content blocks as text and saves binary data into a folder, under generated names."""

    def __init__(self, folder: str | None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._saved = 0

    def describe(self, block: Any) -> str:
        """A block as text; binary data is saved if there is a folder."""
        if isinstance(block, Embedded):
            return self.describe(block.resource)
        if isinstance(block, Text | TextContents):
            return block.text
        if isinstance(block, ResourceLink):
            return f"[link to {block.uri}: {block.title or block.name}]"
        kind = next((name for each, name in _KINDS.items() if isinstance(block, each)), None)
        if kind is None:
            return "[unknown content]"
        data: bytes = block.blob if isinstance(block, BlobContents) else block.data
        about = f"{kind} {block.mime_type or 'of unknown type'}, {len(data)} bytes"
        return f"[{about}{self._save(kind, block.mime_type, data)}]"

    def _save(self, kind: str, mime_type: str | None, data: bytes) -> str:
        if self._folder is None:
            return ""
        import mimetypes

        self._folder.mkdir(parents=True, exist_ok=True)
        self._saved += 1
        path = self._folder / f"{kind}-{self._saved}{mimetypes.guess_extension(mime_type or '') or '.bin'}"
        path.write_bytes(data)
        return f", saved as {path}"


def contents_bytes(contents: Sequence[TextContents | BlobContents]) -> bytes:
    """All contents of a resource, concatenated."""
    return b"".join(part.text.encode() if isinstance(part, TextContents) else part.blob for part in contents)
