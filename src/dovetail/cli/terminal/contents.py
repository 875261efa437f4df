"""Content blocks as text; binary data is described in one line, or saved to files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dovetail.types.content import Audio, BlobContents, Embedded, Image, ResourceLink, Text, TextContents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dovetail.types.tools import CallToolResult

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


def result_table(result: CallToolResult, width: int | None) -> list[str] | None:
    """The lines of a table, if the result is a list of flat objects, structured or as JSON in its only text."""
    from dovetail.cli.output import table_lines

    value = result.data
    if value is None and len(result.content) == 1 and isinstance(text := result.content[0], Text):
        value = _json_list(text.text)
    if isinstance(value, dict) and list(cast("dict[str, Any]", value)) == ["result"]:
        value = cast("dict[str, Any]", value)["result"]
    return table_lines(value, width)


def _json_list(text: str) -> Any:
    import msgspec

    if not text.lstrip().startswith("["):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def contents_bytes(contents: Sequence[TextContents | BlobContents]) -> bytes:
    """All contents of a resource, concatenated."""
    return b"".join(part.text.encode() if isinstance(part, TextContents) else part.blob for part in contents)


def show_contents(contents: Sequence[TextContents | BlobContents]) -> None:
    """Print the contents of a resource for users: JSON as a value, bytes as a description, other text as it is."""
    import msgspec

    from dovetail.cli import output

    for part in contents:
        if isinstance(part, TextContents) and _is_json(part.mime_type):
            try:
                output.show_value(msgspec.json.decode(part.text))
                continue
            except (msgspec.DecodeError, RecursionError):
                pass
        output.show_text(ContentRenderer(None).describe(part))


def _is_json(mime_type: str | None) -> bool:
    kind = (mime_type or "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")
