"""Folders of the user: settings, caches, and sockets of running programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def user_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Dovetail's own folder among a user's settings; it need not be there yet."""
    return _folder(
        environ, ("APPDATA", "AppData/Roaming"), "Library/Application Support", ("XDG_CONFIG_HOME", ".config")
    )


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Folder for files of the user that can be deleted at any time; it need not be there yet."""
    return _folder(environ, ("LOCALAPPDATA", "AppData/Local"), "Library/Caches", ("XDG_CACHE_HOME", ".cache"))


def runtime_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Folder for the sockets of running programs of the user; it need not be there yet."""
    base = environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "dovetail" if base else user_folder(environ) / "run"


def _folder(environ: Mapping[str, str], windows: tuple[str, str], mac: str, other: tuple[str, str]) -> Path:
    """A folder of Dovetail's; `windows` and `other` are a variable, and a path in the home folder without it."""
    home = Path.home()
    if sys.platform == "darwin":
        return home / mac / "dovetail"
    variable, path = windows if sys.platform == "win32" else other
    return Path(environ.get(variable) or home / path) / "dovetail"
