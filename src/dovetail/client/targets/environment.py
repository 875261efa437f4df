"""Environment variables that servers started as programs inherit by default."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping

logger = logging.getLogger("dovetail")

_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "TERM"),
        *("VIRTUAL_ENV", "NVM_DIR", "PNPM_HOME", "VOLTA_HOME", "BUN_INSTALL", "CARGO_HOME", "UV_CACHE_DIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "DOVETAIL_FULL_TRACEBACK"),
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
_PROXY = "_PROXY"
_NOT = frozenset({"PYTHONDONTWRITEBYTECODE"})
"""With it every server would compile itself anew at each start."""

_SECRET = ("TOKEN", "PASSWORD", "SECRET", "AUTH", "KEY", "CREDENTIAL")

_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*@")
"""Credentials in a URL (RFC 3986, section 3.2.1)."""

_warned: set[str] = set()


def shared_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a program needs to run, without those meant for other programs, such as tokens.

    Credentials in the URLs of proxies and registries are removed, with a warning.
    """
    shared: dict[str, str] = {}
    for name, value in environ.items():
        if _is_shared(name.upper()):
            shared[name] = without_credentials(name, value) if "@" in value else value
            if shared[name] != value:
                _warn(name)
    return shared


def without_credentials(name: str, value: str) -> str:
    """The value of a variable without user names and passwords of URLs.

    A proxy may be given without a scheme, and with characters in its password that belong encoded, so there
    everything before the last @ goes.
    """
    if not name.upper().endswith(_PROXY):
        return _USER_INFO.sub("", value)
    before, _, address = value.rpartition("@")
    scheme, sign, _ = before.partition("://")
    return f"{scheme}{sign}{address}" if sign else address


def _is_shared(name: str) -> bool:
    if name in _NOT or any(word in name for word in _SECRET):
        return False
    known = _NAMES | _WINDOWS if sys.platform == "win32" else _NAMES
    return name in known or name.startswith(_BEGINNINGS) or name.endswith(_PROXY)


def _warn(name: str) -> None:
    if name not in _warned:
        _warned.add(name)
        logger.warning("Servers get %s without its credentials; set it in env for a server that needs them", name)
