"""The switch of each tool: what is switched off is neither offered nor called."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from dovetail.userdata.folders import user_folder

from .user_file import UserFile

FILE = "switched_off.json"

_Off: TypeAlias = dict[str, list[str]]


class ToolSwitches:
    """The tools that a user has switched off, by server; in the user's folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = UserFile[_Off]((folder or user_folder()) / FILE, _Off, {})

    def is_on(self, server: str, tool: str) -> bool:
        """True if a tool may be offered."""
        return tool not in self._file.read().get(server, ())

    def turn_on(self, server: str, tool: str) -> None:
        """Offer a tool again."""
        self._file.change(lambda off: _with(off, server, {*off.get(server, ())} - {tool}))

    def turn_off(self, server: str, tool: str) -> None:
        """Offer a tool no longer."""
        self._file.change(lambda off: _with(off, server, {*off.get(server, ()), tool}))


def _with(off: _Off, server: str, tools: set[str]) -> _Off:
    return {key: kept for key, kept in {**off, server: sorted(tools)}.items() if kept}
