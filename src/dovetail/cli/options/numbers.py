"""Numbers of options, with errors in words."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def seconds(text: str) -> float:
    """A number of seconds, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def whole_number(what: str, least: int = 1, most: int | None = None) -> Callable[[str], int]:
    """A reader of whole numbers between two limits; `what` is the beginning of its error."""
    limits = f"{least} or more" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"{what} is a whole number, {limits}, not {text!r}")
        return value

    return read
