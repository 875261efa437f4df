"""Changes of source files as they happen, each checked for syntax errors."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from . import file_watch

POLL_SECONDS = 0.3


class SourceChange(NamedTuple):
    """Files that were added, removed or modified."""

    names: list[str]
    """Relative to the watched folder that holds them."""
    problem: str | None
    """The first syntax error in them: most likely a file is still being written."""


class SourceWatch:
    """Watches folders for changed Python files."""

    def __init__(self, folders: Sequence[str]) -> None:
        """Scan now, so that a change that comes before `changes` is used is noticed."""
        self._folders = [os.path.abspath(folder) for folder in folders]
        self._before = self._scan()

    async def changes(self) -> AsyncGenerator[SourceChange]:
        """Wait for changes; a file with an error is reported once, until it changes again."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            now = await asyncio.to_thread(self._scan)
            paths = file_watch.changed_files(self._before, now)
            if paths:
                self._before = now
                yield SourceChange([self._name(path) for path in paths], file_watch.syntax_error(paths))

    def _scan(self) -> file_watch.FileStates:
        found: file_watch.FileStates = {}
        for folder in self._folders:
            found |= file_watch.scan_files(folder)
        return found

    def _name(self, path: str) -> str:
        holders = [folder for folder in self._folders if path.startswith(folder + os.sep)]
        return os.path.relpath(path, max(holders, key=len)) if holders else path


def log(text: str) -> None:
    """Print a line about a reload."""
    print(f"dovetail: {text}", file=sys.stderr, flush=True)
