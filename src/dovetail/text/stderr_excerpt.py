"""Excerpts of what a program wrote to stderr: of a traceback only the frames in the user's own files.

A program that fails to start often writes fifty lines, of which two matter: the line of the user's file, and the error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The folder of this package, whose frames are not the user's."""
MAX_FRAMES = 3
"""Frames of a traceback that are kept, the innermost ones."""
MAX_LINES = 8
"""Lines that are kept where the output does not end with a traceback."""
MAX_ERROR_LINES = 12
"""Lines of an error with its frames; a longer one is no error at the end of the output."""

_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line \d+')
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\](?:python3|importlib)|\A<frozen ", re.IGNORECASE)
_NODE_FRAME = re.compile(r"\s+at .*(?:node:|node_modules/)")


def stderr_excerpt(lines: Sequence[str], own_folder: str = OWN_FOLDER) -> list[str]:
    """The lines that explain why a program ended; frames below `own_folder` are not the user's."""
    kept = [line.rstrip() for line in lines if not _NODE_FRAME.match(line)]
    begin = _last_error(kept)
    if begin is not None:
        error = _shortened(kept[begin:], own_folder)
        if len(error) <= MAX_ERROR_LINES:
            return error
    kept = [line for line in kept if line.strip()]
    return kept[-MAX_LINES:]


def is_library_file(file: str, own_folder: str = OWN_FOLDER) -> bool:
    """True if a file of a traceback belongs to Python, an installed package, or the folder."""
    return bool(_LIBRARY.search(file)) or file.startswith(own_folder)


def _last_error(lines: list[str]) -> int | None:
    """The index at which the last traceback begins, or the location of a syntax error, which has no header."""
    for last in reversed(range(len(lines))):
        if _FRAME.match(lines[last]):
            first = last
            while first > 0 and lines[first - 1].startswith("  "):
                first -= 1
            return first
        if lines[last].strip() in _CHAINED:
            return None
    return None


def _shortened(lines: list[str], own_folder: str) -> list[str]:
    """The last frames in files of the user, and the error that follows them."""
    frames: list[list[str]] = []
    files: list[str] = []
    rest: list[str] = []
    for line in lines:
        if rest or not (line.startswith(" ") or _FRAME.match(line)):
            rest.append(line)
        elif match := _FRAME.match(line):
            frames.append([line])
            files.append(match["file"])
        elif frames:
            frames[-1].append(line)
    users = [frame for frame, file in zip(frames, files, strict=True) if not is_library_file(file, own_folder)]
    shown = users[-MAX_FRAMES:] or frames[-1:]
    while rest and not rest[-1].strip():
        rest.pop()
    return [line for frame in shown for line in frame] + rest
