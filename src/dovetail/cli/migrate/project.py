"""Files to migrate: finding and reading them, which servers they import from each other, and writing them back."""

from __future__ import annotations

import ast
import codecs
import io
import os
import subprocess
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .rewrite import Migration, migrate_source, server_names

_SKIPPED = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"})
_GIT_SECONDS = 30
BACKUP = ".orig"
"""Suffix of the copy of a file that is not in git."""


class SourceFile(NamedTuple):
    """A Python file as text, with what is needed to write it back as it was."""

    path: Path
    text: str
    encoding: str
    has_mark: bool
    """True if the file begins with a byte order mark."""


class Migrated(NamedTuple):
    """A file with its migration, or with the problem that prevented it."""

    file: SourceFile
    migration: Migration
    problem: str | None = None

    @property
    def is_changed(self) -> bool:
        """True if the text is another one."""
        return self.migration.text != self.file.text


def python_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files, and the Python files in the folders; hidden folders and environments are left out."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(
                name
                for name in folders
                if not name.startswith(".")
                and name not in _SKIPPED
                and not (Path(folder, name) / "pyvenv.cfg").exists()
            )
            yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def read_file(path: Path) -> SourceFile:
    """Read a file in the encoding that it declares; raises OSError, SyntaxError or UnicodeDecodeError."""
    data = path.read_bytes()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    text = data.decode(encoding)
    return SourceFile(path, text, encoding, data.startswith(codecs.BOM_UTF8))


def migrate_files(files: Sequence[SourceFile]) -> list[Migrated]:
    """Migrate files together: a server that one of them makes is known in those that import it."""
    servers: dict[Path, set[str]] = {}
    for file in files:
        try:
            servers[file.path] = server_names(file.text)
        except (SyntaxError, ValueError, RecursionError):
            continue
    return [_migrate(file, servers) for file in files]


def _migrate(file: SourceFile, servers: Mapping[Path, set[str]]) -> Migrated:
    try:
        return Migrated(file, migrate_source(file.text, _imported_servers(file, servers)))
    except SyntaxError as problem:
        where = "" if problem.lineno is None else f" in line {problem.lineno}"
        return Migrated(file, Migration(file.text, (), 0, 0), f"it is no valid Python{where}: {problem.msg}")
    except (ValueError, RecursionError) as problem:
        return Migrated(file, Migration(file.text, (), 0, 0), f"it cannot be rewritten: {problem}")


def _imported_servers(file: SourceFile, servers: Mapping[Path, set[str]]) -> set[str]:
    """The names in a file that are imported servers of the other files."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.text)):
        if not isinstance(node, ast.ImportFrom):
            continue
        for path, names in servers.items():
            if names and path != file.path and _is_module(path, node, file.path):
                found |= {alias.asname or alias.name for alias in node.names if alias.name in names}
    return found


def _is_module(path: Path, node: ast.ImportFrom, importer: Path) -> bool:
    """True if an import names the module in a file."""
    parts = [*path.parent.parts, *([] if path.stem == "__init__" else [path.stem])]
    named = (node.module or "").split(".") if node.module else []
    if node.level:
        above = importer.parent.parts[: len(importer.parent.parts) - node.level + 1]
        return parts == [*above, *named]
    return bool(named) and parts[-len(named) :] == named


def uncommitted(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The files with changes that are not committed, and those that no git repository has."""
    changed: list[Path] = []
    outside: list[Path] = []
    for path in paths:
        status = _git_status(path)
        if status is None:
            outside.append(path)
        elif status:
            changed.append(path)
    return changed, outside


def _git_status(path: Path) -> str | None:
    """The line of `git status` for a file; None outside of a repository, and without git."""
    try:
        done = subprocess.run(
            ["git", "status", "--porcelain", "--ignored", "--", path.name],
            cwd=path.absolute().parent,
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0 or done.stdout.startswith("!!"):
        return None
    return done.stdout.strip()


def write_file(migrated: Migrated, *, backup: bool) -> Path | None:
    """Write the new text; with a copy of the old file if asked for, whose path is returned."""
    file, kept = migrated.file, None
    if backup:
        kept = file.path.with_name(file.path.name + BACKUP)
        with kept.open("xb") as copy:
            copy.write(_encoded(file.text, file))
    temporary = file.path.with_name(f".{file.path.name}.migrating")
    temporary.write_bytes(_encoded(migrated.migration.text, file))
    temporary.chmod(file.path.stat().st_mode & 0o7777)
    temporary.replace(file.path)
    return kept


def _encoded(text: str, file: SourceFile) -> bytes:
    mark = codecs.BOM_UTF8 if file.has_mark else b""
    return mark + text.encode("utf-8" if file.encoding == "utf-8-sig" else file.encoding)
