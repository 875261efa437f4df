"""A typed line: a command, or a message for the model."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection
from typing import NamedTuple

from dovetail.cli.chat.views.prompts import PREFIX
from dovetail.cli.parser import UsageError


class TypedMessage(NamedTuple):
    """A message for the model."""

    text: str


class TypedCommand(NamedTuple):
    """A slash command and its words."""

    name: str
    words: list[str]


def read_line(text: str, commands: Collection[str]) -> TypedMessage | TypedCommand:
    """Tell a command from a message.

    A message may begin with a slash: after a blank, with the slash doubled, or if it is a path, that is if the first
    word contains another slash and no command is called so.
    """
    if not text.startswith("/"):
        return TypedMessage(text.strip())
    if text.startswith("//"):
        return TypedMessage(text[1:])
    name = text.split(maxsplit=1)[0]
    if name not in commands and not name.startswith(PREFIX):
        if "/" in name[1:]:
            return TypedMessage(text)
        raise UsageError(f"there is no command {name}; {_hint(name, commands)}")
    try:
        return TypedCommand(name, shlex.split(text)[1:])
    except ValueError as problem:
        raise UsageError(f"cannot parse this line: {problem}") from None


def _hint(name: str, commands: Collection[str]) -> str:
    near = difflib.get_close_matches(name, list(commands), 1)
    if near:
        return f"did you mean {near[0]}?"
    return "/help lists them all. To send it as a message, begin with a space"
