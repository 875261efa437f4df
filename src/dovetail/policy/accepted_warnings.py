"""The definitions that a user took up although something looked wrong about them."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from dovetail.userdata.folders import user_folder

from .definitions import Definition
from .user_file import UserFile

FILE = "accepted.json"

_Accepted: TypeAlias = dict[str, list[str]]


class AcceptedWarnings:
    """Digests by server, in the user's folder: a lockfile that came with a project vouches for nothing odd."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = UserFile[_Accepted]((folder or user_folder()) / FILE, _Accepted, {})

    def has(self, server: str, definition: Definition) -> bool:
        """True if a user has looked at this very definition and said yes."""
        return definition.digest in self._file.read().get(server, ())

    def add(self, server: str, definition: Definition) -> None:
        """Take note of a user's yes."""
        self._file.change(
            lambda known: {**known, server: sorted({*known.get(server, ()), definition.digest})},
        )
