"""Keys that are nearly right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SERVER_KEYS = frozenset(
    {"type", "command", "args", "env", "envFile", "cwd", "url", "headers", "disabled", "shared", "gateway"}
)
FILE_KEYS = frozenset({"mcpServers", "servers", "inputs", "gateway"})
INPUT_KEYS = frozenset({"type", "id", "description", "password", "options", "default"})

_OTHERS = frozenset(
    {
        *("name", "description", "version", "gallery", "icon", "title", "timeout", "trust", "tools", "dev", "sandbox"),
        *("sandboxEnabled", "autoApprove", "alwaysAllow", "oauth", "auth", "headersHelper", "enabledTools"),
        *("disabledTools", "transport", "$schema"),
    }
)
"""Keys of other programs that Dovetail ignores."""

_MEANT = {
    "environment": "env",
    "envs": "env",
    "arguments": "args",
    "argv": "args",
    "cmd": "command",
    "uri": "url",
    "serverurl": "url",
    "httpurl": "url",
    "workdir": "cwd",
    "workingdirectory": "cwd",
    "header": "headers",
    "mcpserver": "mcpServers",
    "server": "servers",
    "enabled": "disabled",
}
_CUTOFF = 0.75

UNHEEDED = {
    "sandboxEnabled": "there is no sandbox here: the server would run with all of your rights",
    "headersHelper": "no program is run for headers here: give them under headers",
}
"""Keys of other programs that a user may rely on, and what becomes of it."""


def suggest_key(key: str, known: Iterable[str]) -> str | None:
    """The known key that was meant, most likely; None for a key that is right, or that is somebody else's."""
    names = sorted(known)
    if key in names or key in _OTHERS:
        return None
    folded = {name.lower(): name for name in names}
    flat = key.lower().replace("_", "").replace("-", "")
    meant = _MEANT.get(flat)
    if meant in names:
        return meant
    if flat in folded:
        return folded[flat]
    close = difflib.get_close_matches(flat, folded, 1, _CUTOFF)
    return folded[close[0]] if close else None
