"""Shell completion candidates: subcommands, options, and values of options.

Names of tools are left out: to list them would start the server at the press of a key.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from dovetail.cli.parser import COMMANDS, command_parser

FILES = "@files"
"""Tells the shell to complete file names."""


def print_candidates(words: Sequence[str]) -> int:
    """Print the candidates, one a line; the last word is the one being typed."""
    for candidate in candidates(words or [""]):
        print(candidate)
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """Candidates for the last word."""
    *before, typed = words
    if not before:
        return _matching([*COMMANDS, "--help", "--version"], typed)
    if before[0] not in COMMANDS:
        return []
    parser = command_parser(before[0])
    options = {name: action for action in parser._actions for name in action.option_strings}  # pyright: ignore[reportPrivateUsage]
    wanting = options.get(before[-1])
    if wanting is not None and wanting.nargs != 0:
        return _values(wanting, typed)
    if typed.startswith("-"):
        return _matching([name for name in options if name.startswith("--")], typed)
    given = _positionals(before[1:], options)
    arguments = [action for action in parser._actions if not action.option_strings]  # pyright: ignore[reportPrivateUsage]
    if not arguments:
        return []
    return _values(arguments[min(given, len(arguments) - 1)], typed)


def _values(action: argparse.Action, typed: str) -> list[str]:
    if action.choices is not None:
        return _matching([str(choice) for choice in action.choices], typed)
    offered: Sequence[str] = _KNOWN.get(action.dest, ())
    return _matching(offered, typed) if offered else [FILES] if action.dest in _PATHS else []


def _positionals(words: Sequence[str], options: dict[str, argparse.Action]) -> int:
    """Count the positional arguments among the words."""
    count, value_next = 0, False
    for word in words:
        if value_next:
            value_next = False
        elif word.startswith("-") and word != "-":
            value_next = "=" not in word and word in options and options[word].nargs != 0
        else:
            count += 1
    return count


def _matching(offered: Sequence[str], typed: str) -> list[str]:
    return [word for word in offered if word.startswith(typed)]


_PATHS = frozenset({"target", "file", "cwd", "root", "output", "save", "store", "unix"})
_KNOWN = {
    "kinds": ("tools", "resources", "templates", "prompts"),
    "sources": ("claude-desktop", "claude-code", "cursor", "vscode"),
}
