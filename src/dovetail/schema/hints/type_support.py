"""The result of reading a type hint, and checks of what msgspec can convert to."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from dovetail.schema.hints import pydantic_models


class Unsupported(Exception):
    """A hint without a JSON Schema; the message names it and says what to use instead."""


class HintSchema(msgspec.Struct, frozen=True):
    """A hint as JSON Schema and as the type msgspec converts to, with what msgspec alone cannot check."""

    schema: dict[str, Any]
    wire: Any
    needs_schema: bool = False
    """It has a limit that only JSON Schema checks, such as a pattern: Python's `re` may take exponential time."""
    plain: bool = False
    """A simple type, which msgspec is known to accept."""
    model: pydantic_models.PydanticType | None = None
    """Set if pydantic validates and serializes the whole hint."""


def check_convertible(hint: Any) -> None:
    """Make msgspec inspect a type now: raises TypeError for one that it cannot convert to."""
    with contextlib.suppress(msgspec.ValidationError):
        msgspec.convert(None, hint, dec_hook=_refuse)


def _refuse(kind: type, value: object) -> Any:
    raise ValueError(f"{kind.__name__} cannot be converted to JSON")


def is_convertible(hint: Any) -> bool:
    """True if msgspec can convert to a type."""
    try:
        check_convertible(hint)
    except TypeError:
        return False
    return True


def hint_name(hint: Any) -> str:
    """A hint as its author wrote it, for error messages."""
    return hint.__qualname__ if isinstance(hint, type) else str(hint).replace("typing.", "")
