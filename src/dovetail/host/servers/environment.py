"""Environment variables of the host that servers started as programs inherit."""

from __future__ import annotations

import sys
from collections.abc import Mapping

_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "TERM"),
        *("VIRTUAL_ENV", "NVM_DIR", "PNPM_HOME", "VOLTA_HOME", "BUN_INSTALL", "CARGO_HOME", "UV_CACHE_DIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    }
)
_WINDOWS = frozenset(
    {
        *("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
        *("PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE"),
        "WINDIR",
    }
)
_BEGINNINGS = ("LC_", "XDG_", "NODE_", "PYTHON", "NPM_CONFIG_")
_ENDS = ("_PROXY",)
_NOT = frozenset({"PYTHONDONTWRITEBYTECODE"})
"""With it every server would compile itself anew at each start."""

_SECRET = ("TOKEN", "PASSWORD", "SECRET", "AUTH", "KEY", "CREDENTIAL")


def shared_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a program needs to run, without those meant for other programs, such as tokens."""
    return {name: value for name, value in environ.items() if _is_shared(name.upper())}


def _is_shared(name: str) -> bool:
    if name in _NOT or any(word in name for word in _SECRET):
        return False
    known = _NAMES | _WINDOWS if sys.platform == "win32" else _NAMES
    return name in known or name.startswith(_BEGINNINGS) or name.endswith(_ENDS)
