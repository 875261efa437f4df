"""Definitions: what a server declares of a tool, a prompt, a template or itself, in one form, with its SHA-256."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import msgspec

from dovetail.policy.inspection.invisible_chars import show_hidden
from dovetail.types.prompts import Prompt
from dovetail.types.resources import ResourceTemplate
from dovetail.types.serialization import dump
from dovetail.types.tools import Tool

DefinitionKind: TypeAlias = Literal["tool", "prompt", "template", "instructions"]
Defined: TypeAlias = Tool | Prompt | ResourceTemplate

MAX_COMPARED = 5_000
"""Lines; above it both sides are shown as they are, since finding what they share would take too long."""


class Definition(msgspec.Struct, frozen=True, dict=True):
    """One definition: everything that the server says of it, also what nobody knows."""

    kind: DefinitionKind
    name: str
    """Of a template its URI template; of the instructions nothing."""
    content: dict[str, Any]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its canonical form: JSON with sorted names and nothing between them."""
        return sha256(msgspec.json.encode(self.content, order="deterministic")).hexdigest()

    @property
    def key(self) -> tuple[DefinitionKind, str]:
        """Kind and name, which are unique in a server."""
        return self.kind, self.name

    def __str__(self) -> str:
        return "the instructions" if self.kind == "instructions" else f'{self.kind} "{self.name}"'


def define(value: Defined) -> Definition:
    """The definition of a tool, a prompt or a template, as its server lists it."""
    if isinstance(value, Tool):
        return Definition("tool", value.name, dump(value))
    if isinstance(value, Prompt):
        return Definition("prompt", value.name, dump(value))
    return Definition("template", value.uri_template, dump(value))


def define_all(values: Iterable[Defined], instructions: str | None = None) -> list[Definition]:
    """The definitions of everything that a server lists, and of its instructions if it has any."""
    definitions = [define(value) for value in values]
    if instructions is not None:
        definitions.append(Definition("instructions", "", {"instructions": instructions}))
    return definitions


def difference(before: Definition | None, after: Definition | None) -> str:
    """The lines that have changed; of what is new or gone, all of them. Nothing is shortened, and nothing invisible.

    The report of `dovetail snapshot` shortens long texts, which is just where an approval must look.
    """
    import difflib

    old, new = _lines(before), _lines(after)
    if before is None:
        return "\n".join(["+++ new", *(f"+{line}" for line in new)])
    if len(old) + len(new) > MAX_COMPARED:
        return "\n".join(["--- approved", "+++ now", *(f"-{line}" for line in old), *(f"+{line}" for line in new)])
    return "\n".join(difflib.unified_diff(old, new, "approved", "now", lineterm="", n=2))


def _lines(definition: Definition | None) -> list[str]:
    """One line a member, and one a line of its texts, so that a change in a long description is seen."""
    if definition is None:
        return []
    text = msgspec.json.format(msgspec.json.encode(definition.content, order="deterministic"), indent=2).decode()
    shown = show_hidden(text)
    return [part for line in shown.split("\n") for part in line.replace("\\n", "\\n\n").split("\n")]
