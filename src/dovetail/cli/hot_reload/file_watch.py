"""Polling for changed Python source files."""

from __future__ import annotations

import os
from typing import TypeAlias

FileStates: TypeAlias = "dict[str, tuple[int, int]]"
"""Path to modification time and size."""

_DEPTH = 4
_MAX_FILES = 2000
_MAX_FOLDERS = 500
_IGNORED = frozenset({"__pycache__", "node_modules", "site-packages"})


def scan_files(folder: str) -> FileStates:
    """Find the Python files in a folder and, within bounds, below it."""
    files: FileStates = {}
    folders = [(folder, 0)]
    visited = 0
    while folders and len(files) < _MAX_FILES and visited < _MAX_FOLDERS:
        current, depth = folders.pop(0)
        visited += 1
        try:
            with os.scandir(current) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if entry.name.endswith(".py") and entry.is_file():
                        status = entry.stat()
                        files[entry.path] = (status.st_mtime_ns, status.st_size)
                    elif depth < _DEPTH and _is_source_folder(entry):
                        folders.append((entry.path, depth + 1))
        except OSError:
            continue
    return files


def changed_files(before: FileStates, after: FileStates) -> list[str]:
    """The files that were added, removed or modified."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def syntax_error(paths: list[str]) -> str | None:
    """The first syntax error in the files, if any: most likely one is still being written."""
    for path in paths:
        try:
            with open(path, "rb") as file:
                compile(file.read(), path, "exec", dont_inherit=True)
        except OSError:
            continue
        except (SyntaxError, ValueError) as problem:
            return f"{path}: {problem}"
    return None


def _is_source_folder(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in _IGNORED or not entry.is_dir(follow_symlinks=False):
        return False
    return not os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))
