"""The `dovetail` command; its subcommands are listed in `parser.py`.

    from dovetail.cli import ChatApp, LineUI

The application of `dovetail host` can be used in a program; its classes are imported when they are first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from dovetail.cli.chat.app import ChatApp
    from dovetail.cli.chat.ui.line_ui import LineUI
    from dovetail.cli.terminal.terminal import InputClosed

__all__ = ["ChatApp", "InputClosed", "LineUI", "main"]

__getattr__ = lazily(
    __name__,
    {
        "ChatApp": "cli.chat.app",
        "InputClosed": "cli.terminal.terminal",
        "LineUI": "cli.chat.ui.line_ui",
    },
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    from .run_command import run_command

    return run_command(argv)
