"""Watch of configuration files: what a change means for the servers.

By asking for their time, size and number once a second: that costs microseconds for a handful of files, works on
every system and network drive, and needs no library.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from .document import BadConfig
from .entries import ServerEntry
from .reader import Config, ParsedFile, merge_files, parse_file

Stamp: TypeAlias = "tuple[int, int, int, int] | None"
"""Time of the last change, of the last change of its place, size and number; None for a file that is not there."""


class ConfigChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the configuration, by value: a line that moved is no change."""

    added: tuple[ServerEntry, ...] = ()
    removed: tuple[ServerEntry, ...] = ()
    changed: tuple[tuple[ServerEntry, ServerEntry], ...] = ()
    """Before and after."""
    warnings: tuple[str, ...] = ()
    """New warnings about the files; one that cannot be read now is among them, and its last good state counts."""


class ConfigWatch:
    """Reads files now (`BadConfig` where that fails) and looks at them again when told to.

    Those that are `optional` need not be there yet; they count after the others.
    """

    def __init__(
        self,
        *paths: str | os.PathLike[str],
        environ: Mapping[str, str] = os.environ,
        workspace: str | os.PathLike[str] | None = None,
        optional: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self._optional = frozenset(os.path.abspath(path) for path in optional)
        self._paths = tuple(dict.fromkeys(os.path.abspath(path) for path in (*paths, *optional)))
        self._environ = environ
        self._workspace = workspace
        self._stamps: dict[str, dict[str, Stamp]] = {}
        self._good: dict[str, ParsedFile] = {}
        self._broken: dict[str, str] = {}
        for path in self._paths:
            self._read(path)
        self._config = self._join()

    @property
    def config(self) -> Config:
        """The last state of all files that was good."""
        return self._config

    def check(self) -> ConfigChange | None:
        """Look once; None where nothing has changed."""
        touched = [path for path in self._paths if self._touched(path)]
        if not touched:
            return None
        for path in touched:
            try:
                self._read(path)
                self._broken.pop(path, None)
            except BadConfig as problem:
                self._broken[path] = f"{problem}; what the file said before still counts"
        before, self._config = self._config, self._join()
        change = compare(before, self._config)
        return change if change != ConfigChange() else None

    async def changes(self, every: float = 1.0) -> AsyncGenerator[ConfigChange]:
        """Look every so many seconds, and tell of each change; runs until it is closed."""
        while True:
            # In a thread, since a file may be large or on a drive that is slow.
            change = await asyncio.to_thread(self.check)
            if change is not None:
                yield change
            await asyncio.sleep(every)

    def _touched(self, path: str) -> bool:
        return any(_stamp(file) != stamp for file, stamp in self._stamps[path].items())

    def _read(self, path: str) -> None:
        """Read a file; its stamp is taken before, so that what happens meanwhile is seen the next time."""
        known = self._good[path].files if path in self._good else (path,)
        stamps = {file: _stamp(file) for file in known}
        self._stamps[path] = stamps
        if path in self._optional and path not in self._good and not os.path.lexists(path):
            return
        read = parse_file(path, self._environ, self._workspace)
        # A file that is named for the first time counts as changed, and is read once more.
        self._stamps[path] = {file: stamps.get(file) for file in read.files}
        self._good[path] = read

    def _join(self) -> Config:
        config = merge_files([self._good[path] for path in self._paths if path in self._good])
        return msgspec.structs.replace(config, warnings=(*config.warnings, *self._broken.values()))


def compare(before: Config, after: Config) -> ConfigChange:
    """The change from one state to another."""
    old = {entry.key: entry for entry in before.entries}
    new = {entry.key: entry for entry in after.entries}
    return ConfigChange(
        added=tuple(entry for key, entry in new.items() if key not in old),
        removed=tuple(entry for key, entry in old.items() if key not in new),
        changed=tuple(
            (old[key], entry) for key, entry in new.items() if key in old and not entry.same_launch(old[key])
        ),
        warnings=tuple(text for text in after.warnings if text not in before.warnings),
    )


def _stamp(file: str) -> Stamp:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
