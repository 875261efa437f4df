"""The command `dovetail`: one file a verb, listed in `verbs.py`."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code."""
    from .main import run_command

    return run_command(argv)
