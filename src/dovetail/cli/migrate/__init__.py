"""Migration of servers written for FastMCP or the official SDK: pure rewriting of source text.

Edits are made at the positions of the syntax tree, so that comments and formatting stay as they are.
"""

from dovetail.cli.migrate.rewrite import Migration, migrate_source, moved_notes, server_names
from dovetail.cli.migrate.workspace import Note

__all__ = ["Migration", "Note", "migrate_source", "moved_notes", "server_names"]
