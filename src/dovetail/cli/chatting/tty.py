"""How the terminal of this process treats keys, where it can be told."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead


@contextlib.contextmanager
def silent() -> Generator[None]:
    """While it lasts, keys that nobody asked for are not shown; Ctrl-C is a signal all the same."""
    try:
        import termios
    except ImportError:  # Windows
        yield
        return
    where = sys.stdin.fileno()
    before = termios.tcgetattr(where)
    changed = list(before)
    changed[3] &= ~termios.ECHO
    termios.tcsetattr(where, termios.TCSANOW, changed)
    try:
        yield
    finally:
        termios.tcsetattr(where, termios.TCSANOW, before)


def forget_typed(source: Input) -> None:
    """Drop what was typed and not read yet: nobody agrees to what they have not seen."""
    clear_typeahead(source)
    try:
        import termios
    except ImportError:
        return
    with contextlib.suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
