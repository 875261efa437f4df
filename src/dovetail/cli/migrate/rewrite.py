"""Rewriting of a module written for FastMCP or for the official SDK."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Collection
from typing import NamedTuple

from .content import Values
from .contexts import Contexts
from .imports import Imports
from .low_level import LowLevelServers
from .registrations import Registrations
from .servers import Servers
from .workspace import Note, Workspace


class Migration(NamedTuple):
    """The new text of a module, and what is left to be done by hand."""

    text: str
    notes: tuple[Note, ...]
    removed: int
    """Lines that the machine removed or changed."""
    added: int
    """Lines that the machine added or changed."""


def migrate_source(text: str, servers: Collection[str] = ()) -> Migration:
    """Rewrite a module; what is not understood stays as it is and is reported. Raises SyntaxError.

    `servers` are names that the module imports from other modules of its project, and that are servers there.
    """
    workspace = Workspace(text, servers)
    if not workspace.names.imports and not servers and "dovetail" not in text:
        return Migration(text, (), 0, 0)
    Servers(workspace).rewrite()
    LowLevelServers(workspace).rewrite()
    Registrations(workspace).rewrite()
    Contexts(workspace).rewrite()
    Values(workspace).rewrite()
    Imports(workspace).rewrite()
    new = workspace.source.edited() if workspace.source.is_edited else text
    ast.parse(new)  # an edit that breaks the module is a defect here, and must not reach a file
    removed, added = _count_lines(text, new)
    return Migration(new, tuple(sorted(workspace.notes)), removed, added)


def server_names(text: str) -> set[str]:
    """The names of a module whose values are servers of other libraries, for modules that import them."""
    return Workspace(text).module_servers()


def moved_notes(old: str, migration: Migration) -> list[Note]:
    """The notes with the lines of the new text."""
    matcher = difflib.SequenceMatcher(None, old.splitlines(), migration.text.splitlines(), autojunk=False)
    lines: dict[int, int] = {}
    for _, start, end, new_start, new_end in matcher.get_opcodes():
        for line in range(start, end):
            lines[line + 1] = min(new_start + line - start, max(new_end - 1, new_start)) + 1
    return [note._replace(line=lines.get(note.line, note.line)) for note in migration.notes]


def _count_lines(old: str, new: str) -> tuple[int, int]:
    lines = list(difflib.ndiff(old.splitlines(), new.splitlines())) if old != new else []
    return sum(line.startswith("- ") for line in lines), sum(line.startswith("+ ") for line in lines)
