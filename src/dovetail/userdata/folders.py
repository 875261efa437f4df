"""Folders of the user's settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def user_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Dovetail's own folder among a user's settings; it need not be there yet."""
    home = Path.home()
    if sys.platform == "win32":
        base = environ.get("APPDATA") or home / "AppData" / "Roaming"
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = environ.get("XDG_CONFIG_HOME") or home / ".config"
    return Path(base) / "dovetail"
