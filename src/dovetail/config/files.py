"""Locations of configuration files of known programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from dovetail.userdata.folders import user_folder

from .dialects import repository_root
from .programs import PROGRAMS, Product, places

FILE_NAME = "mcp.json"

_PROJECT: tuple[tuple[Product, str], ...] = (
    ("dovetail", FILE_NAME),
    *((program.name, program.project) for program in PROGRAMS if program.project is not None),
)
_BY_NAME: dict[str, Product] = {
    ".claude.json": "claude-code",
    "claude_desktop_config.json": "claude-desktop",
    "mcp_config.json": "windsurf",
    "cline_mcp_settings.json": "cline",
    "opencode.jsonc": "opencode",
}
_BY_FOLDER: dict[str, Product] = {"goose": "goose", "zed": "zed", "Zed": "zed", ".lmstudio": "lm-studio"}


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
    at = places(home, platform, environ)
    own = [ConfigFile("dovetail", "user", user_folder(environ) / FILE_NAME)]
    return own + [ConfigFile(program.name, "user", path) for program in PROGRAMS for path in program.files(at)]


def product_of(path: str | os.PathLike[str]) -> Product | None:
    """The program whose file this is, by its name and folder; None for Dovetail's, and for any other."""
    file = Path(path)
    for product, name in _PROJECT[1:]:
        if file.as_posix().endswith(f"/{name}") or file.as_posix() == name:
            return product
    return _BY_NAME.get(file.name) or _BY_FOLDER.get(file.parent.name)


def is_server_file(path: str | os.PathLike[str]) -> bool:
    """True for a file that exists for servers; others, such as settings of an editor, may well have none."""
    return product_of(path) not in ("codex", "gemini", "goose", "zed", "opencode")


def project_folder(file: str) -> str | None:
    """The folder of the project that a file with this path belongs to, by its name; None for another file."""
    path = file.replace(os.sep, "/")
    for name in sorted((name for _, name in _PROJECT), key=len, reverse=True):
        if path.endswith(f"/{name}"):
            return file[: -len(name) - 1] or os.sep
    return None


def default_file(cwd: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The file that is edited unless another one is named: the current folder's, if there, else the user's own."""
    here = (cwd or Path.cwd()) / FILE_NAME
    return here if here.is_file() else user_folder(environ) / FILE_NAME


def home_of(environ: Mapping[str, str]) -> str:
    """The user's own folder."""
    return environ.get("HOME") or environ.get("USERPROFILE") or str(Path.home())
