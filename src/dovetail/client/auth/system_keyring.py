"""The system's keyring, through the package `keyring`, with a timeout.

A keyring may ask the user for a password, and one without a user may wait for ever. So it is asked on a thread of its
own, which keeps no program alive.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from typing import TypeVar

from dovetail.protocol.errors import LocalError

from .interactive import login_mode

ATTENDED_SECONDS = 60.0
"""Seconds that a keyring may take where a user can unlock it."""
UNATTENDED_SECONDS = 5.0
SERVICE = "dovetail"
KEYRING_VARIABLE = "DOVETAIL_KEYRING"
"""With the value "off" the keyring is not used."""

T = TypeVar("T")


class KeyringFailed(LocalError):
    """The keyring is available, but an operation failed."""


def is_available() -> bool:
    """True if there is a keyring that encrypts, and the package to use it."""
    return importlib.util.find_spec("keyring") is not None and _bounded(_usable)


def read(name: str) -> str | None:
    """Read the secret with a name; the keyring must be available."""
    import keyring

    return _bounded(lambda: keyring.get_password(SERVICE, name))


def write(name: str, secret: str) -> None:
    """Store a secret under a name; the keyring must be available."""
    import keyring

    _bounded(lambda: keyring.set_password(SERVICE, name, secret))


def _usable() -> bool:
    """True if the keyring is a real one: those of low priority do not encrypt, or do not store."""
    from keyring import core

    return core.get_keyring().priority >= 1


def _bounded(work: Callable[[], T]) -> T:
    seconds = UNATTENDED_SECONDS if login_mode() == "never" else ATTENDED_SECONDS
    outcomes: list[T] = []
    problems: list[Exception] = []

    def run() -> None:
        try:
            outcomes.append(work())
        except Exception as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, name="dovetail keyring", daemon=True)
    thread.start()
    thread.join(seconds)
    if outcomes:
        return outcomes[0]
    if problems:
        problem = problems[0]
        why = str(problem) or type(problem).__name__
        raise KeyringFailed(f"The system's keyring cannot be used ({why})") from problem
    raise KeyringFailed(f"The system's keyring gave no answer within {seconds:g} s")
