"""Which key does what, in what prompt_toolkit draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from dovetail.cli.terminal.terminal import Closed

from .contract import Interrupted

Press = Callable[[KeyPressEvent], None]

ANY = Keys.Any


def bindings(presses: Mapping[Any, Press]) -> KeyBindings:
    """Key bindings from a table."""
    made = KeyBindings()
    for key, press in presses.items():
        made.add(key)(press)
    return made


def leave(event: KeyPressEvent) -> None:
    """End with nothing chosen."""
    event.app.exit(result=None)


def close(event: KeyPressEvent) -> None:
    """Ctrl-D."""
    event.app.exit(exception=Closed())


def interrupt(event: KeyPressEvent) -> None:
    """Ctrl-C."""
    event.app.exit(exception=Interrupted())
