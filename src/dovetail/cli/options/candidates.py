"""Shell completion candidates: subcommands, options, values of options, and names that a server is known to have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dovetail.cli.parser import COMMANDS, command_parser
from dovetail.config.programs import PROGRAMS

if TYPE_CHECKING:
    from .known_names import NameKind

NEW_WORD = "@new"
"""The word that begins at the cursor, from a shell that cannot pass an empty one."""

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
    typed = "" if typed == NEW_WORD else typed
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
    words_given = _positionals(before[1:], options)
    arguments = [action for action in parser._actions if not action.option_strings]  # pyright: ignore[reportPrivateUsage]
    if not arguments:
        return []
    wanted = arguments[min(len(words_given), len(arguments) - 1)]
    place = next((number for number, action in enumerate(arguments) if action.dest == "target"), len(words_given))
    names = _names(words_given[place], wanted) if place < len(words_given) else []
    return [*_values(wanted, typed), *_matching(names, typed)]


def _names(target: str, wanted: argparse.Action) -> list[str]:
    """Names for an argument that `dovetail list` or `dovetail call` has seen at this target, or has left there."""
    if wanted.dest == "task":
        return _left_task_ids(target)
    kind = _NAMED.get(wanted.dest)
    if kind is None:
        return []
    from .known_names import known_names

    return known_names(target, kind)


def _left_task_ids(target: str) -> list[str]:
    from dovetail.cli.tasks.left_tasks import left_tasks, task_id
    from dovetail.protocol.errors import LocalError

    from .known_names import is_safe_name

    try:
        return [id for each in left_tasks(target) if is_safe_name(id := task_id(each))]
    except LocalError:  # a file that cannot be read
        return []


def _values(action: argparse.Action, typed: str) -> list[str]:
    if action.choices is not None:
        return _matching([str(choice) for choice in action.choices], typed)
    offered: Sequence[str] = _KNOWN.get(action.dest, ())
    if offered:
        return _matching(offered, typed)
    # The scripts complete either words or file names.
    names = _matching(_configured_names(), typed) if action.dest in _TARGETS and typed else []
    return names or ([FILES] if action.dest in _PATHS else [])


def _configured_names() -> list[str]:
    """Names of configured servers; reading their files starts nothing."""
    from .configured_servers import find_configured_servers

    return list(dict.fromkeys(each.entry.key for each in find_configured_servers().servers))


def _positionals(words: Sequence[str], options: dict[str, argparse.Action]) -> list[str]:
    """The positional arguments among the words."""
    found, value_next = list[str](), False
    for word in words:
        if value_next:
            value_next = False
        elif word.startswith("-") and word != "-":
            value_next = "=" not in word and word in options and options[word].nargs != 0
        else:
            found.append(word)
    return found


def _matching(offered: Sequence[str], typed: str) -> list[str]:
    return [word for word in offered if word.startswith(typed)]


_TARGETS = frozenset({"target", "targets"})
_PATHS = frozenset({"target", "targets", "file", "cwd", "root", "output_file", "save", "store", "unix", "reload_dir"})
_KNOWN = {
    "kinds": ("tools", "resources", "templates", "prompts"),
    "sources": tuple(program.name for program in PROGRAMS),
}
_NAMED: dict[str, NameKind] = {
    "tool": "tools",
    "kinds": "tools",
    "uri": "resources",
    "uris": "resources",
    "name": "prompts",
    "reference": "prompts",
}
"""Arguments that are names at the target."""
