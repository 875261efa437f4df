"""A JSON file in the user's folder that several processes read and change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.userdata.private_file import FileUnusable, check_only_owner_writes, file_lock, read_file, write_private

T = TypeVar("T")

_Stamp = tuple[int, int, int]


class UserFile(Generic[T]):
    """Holds one value; a change by one program is seen by the others, and none is lost.

    Changing it waits for the disk, a few milliseconds: on an event loop do so in a thread.
    """

    def __init__(self, path: Path, kind: type[T], empty: T) -> None:
        self.path = path
        self._name = str(path)
        self._kind = kind
        self._empty = empty
        self._seen: tuple[_Stamp, T] | None = None

    def read(self) -> T:
        """The value; read from the disk only if the file has changed."""
        stamp = self._stamp()
        if stamp is None:
            return self._empty
        if self._seen is None or self._seen[0] != stamp:
            self._seen = (stamp, self._read())
        return self._seen[1]

    def change(self, new: Callable[[T], T]) -> T:
        """Make a new value of the one that it holds, and keep it; nobody else changes it meanwhile."""
        try:
            with file_lock(self.path.with_name(f".{self.path.name}.turn")):
                value = new(self._read())
                text = msgspec.json.encode(value, order="deterministic")
                write_private(self.path, msgspec.json.format(text, indent=2) + b"\n")
        except FileUnusable as problem:
            raise LocalError(str(problem)) from None
        return value

    def _read(self) -> T:
        try:
            check_only_owner_writes(self.path)
            content = read_file(self.path)
            return self._empty if content is None else msgspec.json.decode(content, type=self._kind)
        except FileUnusable as problem:
            raise LocalError(str(problem)) from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            raise LocalError(f"{self.path} cannot be read ({problem}): mend it, or remove it to begin anew") from None

    def _stamp(self) -> _Stamp | None:
        try:
            status = os.stat(self._name)  # once for every call: Path.stat costs half as much again
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as problem:
            # What cannot be read may say no: to go on as if it said nothing would turn that into a yes.
            raise LocalError(f"{self.path} cannot be read: {problem.strerror}") from None
        return status.st_mtime_ns, status.st_size, status.st_ino
