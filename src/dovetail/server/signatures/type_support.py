"""What a hint becomes when it is read, and the question whether msgspec takes a type."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from dovetail.server.signatures import pydantic_models


class Unsupported(Exception):
    """A hint that no JSON Schema can be written for; the text says which and what to use instead."""


class Reading(msgspec.Struct, frozen=True):
    """A hint, read: its schema, the type msgspec converts to, and what msgspec alone cannot check."""

    schema: dict[str, Any]
    wire: Any
    needs_schema: bool = False
    """A limit that only JSON Schema checks, such as a pattern: Python's `re` may take exponential time."""
    plain: bool = False
    """A type so simple that msgspec is known to accept it."""
    model: pydantic_models.Model | None = None
    """Set when pydantic reads and writes the whole hint."""


def probe(hint: Any) -> None:
    """Make msgspec look at a type now: it raises TypeError for what it will never convert to."""
    with contextlib.suppress(msgspec.ValidationError):
        msgspec.convert(None, hint, dec_hook=_refuse)


def _refuse(kind: type, value: object) -> Any:
    raise ValueError(f"{kind.__name__} has no form in JSON")


def accepted(hint: Any) -> bool:
    """Whether msgspec will convert to a type."""
    try:
        probe(hint)
    except TypeError:
        return False
    return True


def name_of(hint: Any) -> str:
    """A hint as its author wrote it, for messages."""
    return hint.__qualname__ if isinstance(hint, type) else str(hint).replace("typing.", "")
