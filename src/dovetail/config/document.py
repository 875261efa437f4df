"""A configuration file as it was read: its text, its values, and the line of each."""

from __future__ import annotations

import os
from pathlib import Path

from dovetail.config.entries import Origin
from dovetail.protocol.errors import LocalError
from dovetail.userdata.private_file import FileUnusable, read_file

from .jsonc import BadJson, LineIndex, Node, Object, parse
from .programs import Format

_FORMATS: dict[str, Format] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}


class BadConfig(LocalError):
    """A whole file cannot be used; `origin` is the file and the line."""

    def __init__(self, message: str, origin: Origin) -> None:
        super().__init__(f"{origin}: {message}")
        self.origin = origin


MAX_BYTES = 32_000_000
"""More than any such file has; `~/.claude.json` holds a history too and grows to some megabytes."""

BOM = "\ufeff"


class ConfigDocument:
    """The text of one file and what it says."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self._lines = LineIndex(text)
        # An editor on Windows may have put a mark before the text; a blank in its place keeps all offsets.
        readable = " " + text[1:] if text.startswith(BOM) else text
        self.format: Format = _FORMATS.get(os.path.splitext(file)[1].lower(), "json")
        try:
            root = self._parse(readable)
        except BadJson as problem:
            raise BadConfig(str(problem), self.origin_at(problem.offset)) from None
        if not isinstance(root, Object):
            raise BadConfig("a configuration is an object: { … }", self.origin(root))
        self.root = root

    def _parse(self, text: str) -> Node:
        if self.format == "toml":
            from .formats.toml_text import parse_toml

            return parse_toml(text)
        if self.format == "yaml":
            from .formats.yaml_text import parse_yaml

            return parse_yaml(text)
        return parse(text)

    def origin(self, node: Node) -> Origin:
        """The file and line of a value."""
        return self.origin_at(node.start)

    def origin_at(self, offset: int) -> Origin:
        """The file and line of an offset in the text."""
        return Origin(self.file, self._lines.at(offset))


def read_document(path: str | os.PathLike[str]) -> ConfigDocument:
    """Read a file; `BadConfig` where that cannot be done."""
    file = os.path.abspath(path)
    return ConfigDocument(file, read_text(file))


def read_text(file: str) -> str:
    """The text of a file, with its own line ends."""
    try:
        content = read_file(Path(file))
    except FileUnusable as problem:
        raise BadConfig(f"the file {str(problem).removeprefix(f'{file} ')}", Origin(file)) from None
    if content is None:
        raise BadConfig("the file cannot be read: No such file or directory", Origin(file))
    if len(content) > MAX_BYTES:
        raise BadConfig(f"the file has more than {MAX_BYTES:,} bytes", Origin(file))
    try:
        return content.decode()
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise BadConfig("the file is not UTF-8", Origin(file, line)) from None
