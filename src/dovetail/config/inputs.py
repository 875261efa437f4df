"""The `inputs` of a file: what it leaves to the user."""

from __future__ import annotations

import msgspec

from dovetail.config.entries import Input

from .document import ConfigDocument
from .jsonc import Array, Node, Object, Scalar
from .key_typos import INPUT_KEYS, suggest_key

KINDS = frozenset({"promptString", "pickString"})


class Inputs(msgspec.Struct, frozen=True):
    """The inputs that could be read, and the problems of the others."""

    known: dict[str, Input]
    refused: dict[str, str]
    """By id: why a server that wants it cannot be started."""
    warnings: tuple[str, ...]


def read_inputs(document: ConfigDocument, node: Node | None) -> Inputs:
    """Read the list of inputs; one that cannot be read hurts only the servers that want it."""
    known: dict[str, Input] = {}
    refused: dict[str, str] = {}
    warnings: list[str] = []
    if node is not None and not isinstance(node, Array):
        warnings.append(f"{document.origin(node)}: inputs is to be a list, and is ignored")
    for item in node.items if isinstance(node, Array) else ():
        name = _text(item.get("id")) if isinstance(item, Object) else None
        if not isinstance(item, Object) or not name:
            warnings.append(f"{document.origin(item)}: an input is to be an object with an id; this one is ignored")
            continue
        place = document.origin(item)
        warnings += [
            f"{document.origin(member.key)}: {key!r} is no key of an input; did you mean {meant!r}?"
            for key, member in item.members.items()
            if (meant := suggest_key(key, INPUT_KEYS))
        ]
        if name in known or name in refused:
            known.pop(name, None)
            refused[name] = f"{place}: the input {name!r} stands in the file twice"
        elif problem := _problem(item):
            refused[name] = f"{place}: the input {name!r} {problem}"
        else:
            known[name] = _input(name, item, document)
    return Inputs(known, refused, tuple(warnings))


def _problem(item: Object) -> str | None:
    kind = _text(item.get("type"))
    if kind == "command":
        return "is of type command, which only VS Code can run; make it a promptString"
    if kind not in KINDS:
        return "has no type that is known: promptString or pickString"
    if kind == "pickString" and not _options(item):
        return "has no options to choose from"
    return None


def _input(name: str, item: Object, document: ConfigDocument) -> Input:
    hidden = item.get("password")
    return Input(
        id=name,
        origin=document.origin(item),
        description=_text(item.get("description")) or "",
        secret=isinstance(hidden, Scalar) and hidden.value is True,
        options=_options(item) if _text(item.get("type")) == "pickString" else (),
        default=_text(item.get("default")),
    )


def _options(item: Object) -> tuple[str, ...]:
    """Texts, or objects with a `value` beside their label."""
    options = item.get("options")
    values = [
        _text(option.get("value") if isinstance(option, Object) else option)
        for option in (options.items if isinstance(options, Array) else ())
    ]
    return tuple(value for value in values if value is not None)


def _text(node: Node | None) -> str | None:
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None
