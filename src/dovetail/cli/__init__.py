"""The `dovetail` command; its subcommands are listed in `parser.py`."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    from .main import run_command

    return run_command(argv)
