"""The keyring of the user's system, through the package `keyring`, and never for longer than it may take.

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
"""How long a keyring may take where somebody can unlock it."""
UNATTENDED_SECONDS = 5.0
SERVICE = "dovetail"
KEYRING_VARIABLE = "DOVETAIL_KEYRING"
"""Where it is "off", the keyring is left alone."""

T = TypeVar("T")


class KeyringFailed(LocalError):
    """The keyring is there, and does not do what it is asked."""


def is_available() -> bool:
    """Whether there is a keyring that encrypts, and a package to reach it with."""
    return importlib.util.find_spec("keyring") is not None and _bounded(_usable)


def read(name: str) -> str | None:
    """What is kept under a name, in a keyring that was found."""
    import keyring

    return _bounded(lambda: keyring.get_password(SERVICE, name))


def write(name: str, secret: str) -> None:
    """Keep something under a name, in a keyring that was found."""
    import keyring

    _bounded(lambda: keyring.set_password(SERVICE, name, secret))


def _usable() -> bool:
    """Whether it is worth its name: a keyring of low rank encrypts nothing, or keeps nothing."""
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
