"""Seeing that the source files around a server have changed."""

from __future__ import annotations

import os
from typing import TypeAlias

State: TypeAlias = "dict[str, tuple[int, int]]"
"""Path to time of the last change and size."""

_DEPTH = 4
_MAX_FILES = 2000
_MAX_FOLDERS = 500
_NOT_OURS = frozenset({"__pycache__", "node_modules", "site-packages"})


def look(folder: str) -> State:
    """The Python files in a folder and, within bounds, below it."""
    found: State = {}
    waiting = [(folder, 0)]
    seen = 0
    while waiting and len(found) < _MAX_FILES and seen < _MAX_FOLDERS:
        place, depth = waiting.pop(0)
        seen += 1
        try:
            with os.scandir(place) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if entry.name.endswith(".py") and entry.is_file():
                        status = entry.stat()
                        found[entry.path] = (status.st_mtime_ns, status.st_size)
                    elif depth < _DEPTH and _is_ours(entry):
                        waiting.append((entry.path, depth + 1))
        except OSError:
            continue
    return found


def changed(before: State, after: State) -> list[str]:
    """The files that came, went or changed."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def broken(paths: list[str]) -> str | None:
    """What is wrong with the syntax of some files, if anything: they are still being written, most likely."""
    for path in paths:
        try:
            with open(path, "rb") as file:
                compile(file.read(), path, "exec", dont_inherit=True)
        except OSError:
            continue
        except (SyntaxError, ValueError) as problem:
            return f"{path}: {problem}"
    return None


def _is_ours(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in _NOT_OURS or not entry.is_dir(follow_symlinks=False):
        return False
    return not os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))
