"""Locations of configuration files of known programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from dovetail.userdata.folders import user_folder

from .dialects import repository_root

Product: TypeAlias = Literal["dovetail", "claude-code", "claude-desktop", "cursor", "vscode"]

FILE_NAME = "mcp.json"

_PROJECT: tuple[tuple[Product, str], ...] = (
    ("dovetail", FILE_NAME),
    ("claude-code", ".mcp.json"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".vscode/mcp.json"),
)


_BY_NAME: dict[str, Product] = {
    ".mcp.json": "claude-code",
    ".claude.json": "claude-code",
    "claude_desktop_config.json": "claude-desktop",
}
_BY_FOLDER: dict[str, Product] = {".cursor": "cursor", ".vscode": "vscode"}


class ConfigFile(msgspec.Struct, frozen=True):
    """A file of a program that is known, and whether it belongs to the project or to the user."""

    product: Product
    scope: Literal["project", "user"]
    path: Path


def find_files(
    home: Path | None = None,
    cwd: Path | None = None,
    platform: str = sys.platform,
    environ: Mapping[str, str] = os.environ,
) -> list[ConfigFile]:
    """The files that are there, what counts more first: the project's, then the user's."""
    here = str(cwd or Path.cwd())
    root = repository_root(here)
    folders = [here] if root is None else list(dict.fromkeys([here, root]))
    theirs = [ConfigFile(product, "project", Path(folder) / name) for folder in folders for product, name in _PROJECT]
    own = user_files(Path(home_of(environ)) if home is None else home, platform, environ)
    mine = {each.path for each in own}
    return [each for each in [*(each for each in theirs if each.path not in mine), *own] if each.path.is_file()]


def user_files(home: Path, platform: str = sys.platform, environ: Mapping[str, str] = os.environ) -> list[ConfigFile]:
    """Locations of the user's own files, whether or not they exist."""
    settings = _settings(home, platform, environ)
    places: tuple[tuple[Product, Path], ...] = (
        ("dovetail", user_folder(environ) / FILE_NAME),
        ("claude-code", Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"),
        ("cursor", home / ".cursor" / FILE_NAME),
        ("vscode", settings / "Code" / "User" / FILE_NAME),
        ("vscode", settings / "Code - Insiders" / "User" / FILE_NAME),
        *(("claude-desktop", folder / "claude_desktop_config.json") for folder in _desktops(home, settings, environ)),
    )
    return [ConfigFile(product, "user", path) for product, path in places]


def _desktops(home: Path, settings: Path, environ: Mapping[str, str]) -> list[Path]:
    """The folders of Claude Desktop: as a package of Windows it sees one of its own in place of the usual one."""
    local = Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return [*sorted(local.glob("Packages/Claude_*/LocalCache/Roaming/Claude")), settings / "Claude"]


def product_of(path: str | os.PathLike[str]) -> Product | None:
    """The program whose file this is, by its name and folder; None for Dovetail's, and for any other."""
    file = Path(path)
    return _BY_NAME.get(file.name) or _BY_FOLDER.get(file.parent.name)


def default_file(cwd: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The file that is edited unless another one is named: the current folder's, if there, else the user's own."""
    here = (cwd or Path.cwd()) / FILE_NAME
    return here if here.is_file() else user_folder(environ) / FILE_NAME


def home_of(environ: Mapping[str, str]) -> str:
    """The user's own folder."""
    return environ.get("HOME") or environ.get("USERPROFILE") or str(Path.home())


def _settings(home: Path, platform: str, environ: Mapping[str, str]) -> Path:
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    if platform == "darwin":
        return home / "Library" / "Application Support"
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
