"""Interactive login: whether a user is present who could log in, and which browser to open."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal, TypeAlias, cast, get_args

from dovetail.protocol.errors import LocalError

LOGIN_VARIABLE = "DOVETAIL_LOGIN"
"""Overrides the detection: open a browser, print the address, or never ask for a login."""

LoginMode: TypeAlias = Literal["browser", "print", "never"]


def configured_login_mode(environ: Mapping[str, str] = os.environ) -> LoginMode | None:
    """The mode that the environment sets; None if it sets none."""
    wish = environ.get(LOGIN_VARIABLE)
    if wish and wish not in get_args(LoginMode):
        raise LocalError(f"{LOGIN_VARIABLE} is browser, print or never, not {wish!r}")
    return cast("LoginMode", wish) if wish else None


def login_mode(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> LoginMode:
    """The mode that the environment sets, else the one detected: a display with a browser, or a terminal.

    A job of a CI service has neither; some pretend to.
    """
    if (wish := configured_login_mode(environ)) is not None:
        return wish
    if environ.get("CI"):
        return "never"
    if find_browser(environ, platform) is not None:
        return "browser"
    return "print" if _at_terminal() else "never"


def find_browser(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> list[str] | None:
    """The command that opens pages here, to be started with a URL as its last argument and without a shell.

    It is the first that `BROWSER` names, where that is set: editors on other machines set it to reach the user.
    """
    import shutil

    own = _wished_browser(environ)
    if own and shutil.which(own[0], path=environ.get("PATH")):
        return own
    if platform in ("darwin", "win32") and environ.get("SSH_CONNECTION"):
        return None  # the screen is where the user is not
    if platform == "darwin":
        return ["/usr/bin/open"]
    if platform == "win32":
        return ["rundll32.exe", "url.dll,FileProtocolHandler"]
    opener = shutil.which("xdg-open", path=environ.get("PATH"))
    if opener is None or not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return None
    return [opener]


def _wished_browser(environ: Mapping[str, str]) -> list[str]:
    import shlex

    try:
        words = shlex.split(environ.get("BROWSER", "").split(os.pathsep)[0])
    except ValueError:
        return []
    return [word for word in words if word != "%s"]


def _at_terminal() -> bool:
    stream = sys.stderr
    # Programs without a console have no stderr, and one that was closed cannot be asked.
    return stream is not None and not stream.closed and stream.isatty()
