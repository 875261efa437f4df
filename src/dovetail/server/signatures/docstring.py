"""Docstring parser: description of a function, and of its parameters."""

from __future__ import annotations

import re
from typing import NamedTuple

_GOOGLE = re.compile(r"(?:(?:keyword )?(?:args|arguments)|(?:other )?parameters|params):\s*$", re.IGNORECASE)
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:(?:\s+(.*)|$)")
_SPHINX = re.compile(r":(param|parameter|arg|argument|key|keyword)\s+([^:]*?)\s*:\s*(.*)$")
_SPHINX_ANY = re.compile(r":\w+(?:\s+[^:]*)?:(?:\s|$)")
_NUMPY_RULE = re.compile(r"-{3,}\s*$")
_NUMPY_ENTRY = re.compile(r"((?:\*{0,2}\w+)(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_NUMPY_PARAMETERS = frozenset({"parameters", "other parameters", "keyword arguments"})


class ParsedDocstring(NamedTuple):
    """A parsed docstring: the text without its parameter section, and the descriptions of parameters."""

    text: str
    parameters: dict[str, str]


def parse(doc: str | None) -> ParsedDocstring:
    """Parse a docstring in Google, NumPy or Sphinx style, also mixed.

    The docstring is expected without its common indent, as `inspect.getdoc` returns it.
    """
    if not doc:
        return ParsedDocstring("", {})
    # Most docstrings have no section at all.
    if ":" not in doc and "---" not in doc:
        return ParsedDocstring(doc.strip(), {})
    lines = doc.expandtabs().splitlines()
    kept: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if _GOOGLE.match(line):
            at = _google(lines, at + 1, parameters)
        elif line.strip().lower() in _NUMPY_PARAMETERS and _underlined(lines, at):
            at = _numpy(lines, at + 2, parameters)
        elif (entry := _SPHINX.match(line.strip())) is not None:
            at = _sphinx(lines, at, entry, parameters)
        elif line.strip().startswith(":type "):
            at += 1
        else:
            kept.append(line)
            at += 1
    return ParsedDocstring(re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), parameters)


def _underlined(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and _NUMPY_RULE.match(lines[at + 1]) is not None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _google(lines: list[str], at: int, parameters: dict[str, str]) -> int:
    """Read indented entries `name (type): text`; deeper lines continue the text."""
    depth = 0
    name = ""
    while at < len(lines):
        line = lines[at]
        indent = _indent(line)
        if line.strip():
            if indent == 0:
                break
            depth = depth or indent
            entry = _ENTRY.match(line.strip()) if indent <= depth else None
            if entry is not None:
                name = entry[1]
                parameters[name] = (entry[2] or "").strip()
            elif name:
                parameters[name] = f"{parameters[name]} {line.strip()}".strip()
        at += 1
    return at


def _numpy(lines: list[str], at: int, parameters: dict[str, str]) -> int:
    """Read entries `name : type` without indent, with their text indented below, up to the next underlined title."""
    names: list[str] = []
    while at < len(lines):
        line = lines[at]
        if line.strip() and _underlined(lines, at):
            break
        if line.strip() and _indent(line) == 0:
            entry = _NUMPY_ENTRY.match(line)
            if entry is None:
                break
            names = [name.strip().lstrip("*") for name in entry[1].split(",")]
            parameters.update(dict.fromkeys(names, ""))
        elif line.strip():
            for name in names:
                parameters[name] = f"{parameters[name]} {line.strip()}".strip()
        at += 1
    return at


def _sphinx(lines: list[str], at: int, entry: re.Match[str], parameters: dict[str, str]) -> int:
    """Read a field `:param type name: text`; indented lines continue the text."""
    name = entry[2].split()[-1].lstrip("*") if entry[2].split() else ""
    text = [entry[3].strip()]
    at += 1
    while at < len(lines) and lines[at].strip() and _indent(lines[at]) > 0:
        if _SPHINX_ANY.match(lines[at].strip()):
            break
        text.append(lines[at].strip())
        at += 1
    if name:
        parameters[name] = " ".join(text).strip()
    return at
