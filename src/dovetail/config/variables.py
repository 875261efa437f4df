"""`${…}` in the values of a configuration, in every way that people write it.

Nothing is passed on literally: a name that nobody knows is an error, because a server would take `${TOKEN}` for the
token.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

import msgspec

REFERENCE = re.compile(r"\$\{([^{}]*)\}")
INPUT = re.compile(r"\$\{input:([^{}]*)\}")
_NAME = re.compile(r"[^\s:{}$]+")


class UnresolvedVariable(ValueError):
    """A reference has no value; the text says which one and what to do."""


class VariableScope(msgspec.Struct, frozen=True):
    """Values of variables: environment, folders and the file itself."""

    environ: Mapping[str, str]
    home: str
    workspace: str


_PREDEFINED: dict[str, Callable[[VariableScope], str]] = {
    "workspaceFolder": lambda around: around.workspace,
    "workspaceFolderBasename": lambda around: os.path.basename(around.workspace),
    "userHome": lambda around: around.home,
    "pathSeparator": lambda around: os.sep,
    "/": lambda around: os.sep,
}
_REFUSED = {
    "command": "only VS Code can run its commands",
    "config": "only VS Code knows its settings",
    "workspaceFolder": "there is only one workspace here: write ${workspaceFolder}",
}


def expand(text: str, around: VariableScope) -> str:
    """The text with every reference filled in but `${input:…}`, which stays for `Secrets`."""
    filled = REFERENCE.sub(lambda match: _value(match[0], match[1], around), text)
    if "${" in REFERENCE.sub("", text):
        raise UnresolvedVariable(f"{text!r} holds a ${{ that is not closed, or one inside of another")
    return filled


def input_names(text: str) -> list[str]:
    """The inputs that a text wants, in its order."""
    return INPUT.findall(text)


def _value(whole: str, inner: str, around: VariableScope) -> str:
    if inner in _PREDEFINED:
        return _PREDEFINED[inner](around)
    kind, sign, rest = inner.partition(":")
    if sign and not rest.startswith("-"):
        if kind == "input":
            return whole
        if kind != "env":
            reason = _REFUSED.get(kind, "nobody here knows what that is")
            raise UnresolvedVariable(f"{whole} cannot be filled in: {reason}")
        inner = rest
    return _variable(whole, inner, around.environ, in_env=bool(sign and kind == "env"))


def _variable(whole: str, inner: str, environ: Mapping[str, str], *, in_env: bool) -> str:
    name, sign, default = inner.partition(":-")
    if not _NAME.fullmatch(name):
        raise UnresolvedVariable(f"{whole} names no variable")
    value = environ.get(name, default if sign else None)
    if value is None:
        if in_env:  # `${env:…}` has no default in the programs that it comes from, and often is a secret
            raise UnresolvedVariable(f"{whole} has no value: set the environment variable {name}")
        raise UnresolvedVariable(
            f"the environment variable {name} is not set; set it, or give a default: ${{{name}:-…}}"
        )
    if INPUT.search(value):
        # It would be taken for a reference of the file itself, and handed a secret.
        raise UnresolvedVariable(f"the environment variable {name} holds an ${{input:…}}, which only a file may")
    return value
