"""Servers put into the configuration of another program, and taken out again: from text to text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from .document import BadConfig, ConfigDocument
from .editing import put_under, remove_under
from .entries import Origin
from .formats.toml_text import put_toml_server, remove_toml_server
from .formats.yaml_text import put_yaml_entry, remove_yaml_entry
from .jsonc import Object, plain
from .programs import Program

_EMPTY = {"json": "{}\n", "toml": "", "yaml": ""}


def installed_servers(program: Program, file: str, text: str | None) -> dict[str, Any]:
    """The entries of a program's file by their names, in its own form; `BadConfig` if the file is malformed."""
    node = _document(program, file, text).root
    for step in program.way:
        inner = node.get(step)
        if inner is None:
            return {}
        if not isinstance(inner, Object):
            raise BadConfig(f"{'.'.join(program.way)} is to be an object", Origin(file))
        node = inner
    return cast("dict[str, Any]", plain(node))


def with_server(program: Program, file: str, text: str | None, name: str, entry: Mapping[str, Any]) -> str:
    """The text with the server in it; `BadConfig` if the file is malformed, or cannot be edited without harm."""
    before = installed_servers(program, file, text)
    document = _document(program, file, text)
    try:
        if program.format == "toml":
            changed = put_toml_server(document.text, name, entry)
        elif program.format == "yaml":
            changed = put_yaml_entry(document.text, name, entry)
        else:
            changed = put_under(document, [*program.way, name], dict(entry))
    except ValueError as problem:
        raise BadConfig(str(problem), Origin(file)) from None
    _require(program, file, changed, {**before, name: dict(entry)})
    return changed


def without_server(program: Program, file: str, text: str, name: str) -> str:
    """The text without the server; everything else stays as it is."""
    before = installed_servers(program, file, text)
    document = _document(program, file, text)
    try:
        if program.format == "toml":
            changed = remove_toml_server(document.text, name)
        elif program.format == "yaml":
            changed = remove_yaml_entry(document.text, name)
        else:
            changed = remove_under(document, [*program.way, name])
    except ValueError as problem:
        raise BadConfig(str(problem), Origin(file)) from None
    _require(program, file, changed, {key: value for key, value in before.items() if key != name})
    return changed


def _document(program: Program, file: str, text: str | None) -> ConfigDocument:
    return ConfigDocument(file, text if text is not None and text.strip() else _EMPTY[program.format])


def _require(program: Program, file: str, text: str, expected: Mapping[str, Any]) -> None:
    """Read the changed text again: an edit that broke the file would take every server with it."""
    if installed_servers(program, file, text) != expected:
        raise BadConfig("the file is written in a form that cannot be edited here", Origin(file))
