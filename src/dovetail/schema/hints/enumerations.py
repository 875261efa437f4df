"""Schemas of Literal and Enum hints."""

from __future__ import annotations

import enum
import types
from typing import Any

from dovetail.schema.hints.opaque_types import opaque
from dovetail.schema.hints.type_support import HintSchema, Unsupported, hint_name, is_convertible

_SCALARS: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null",
}  # fmt: skip


def read_literal(hint: Any, args: tuple[Any, ...]) -> HintSchema:
    """Read `Literal[...]`; members of enumerations are replaced by their values."""
    values = [arg.value if isinstance(arg, enum.Enum) else arg for arg in args]
    return _listed(hint, values, list(args), {})


def read_enum(hint: Any) -> HintSchema:
    """Read an Enum by its values."""
    members: list[enum.Enum] = list(hint)
    values = [_base(member.value) for member in members]
    return _listed(hint, values, members, {"title": hint.__name__})


def _base(value: Any) -> Any:
    """A value of a subclass of str, int or float, converted to the base type."""
    kind: type | None = next((kind for kind in _SCALARS if isinstance(value, kind)), None)
    return value if kind is None or type(value) in _SCALARS else kind(value)


def _listed(hint: Any, values: list[Any], members: list[Any], notes: dict[str, Any]) -> HintSchema:
    types_of: list[type] = [type(value) for value in values]
    kinds = {_SCALARS.get(kind) for kind in types_of}
    if None in kinds or not values:
        raise Unsupported(f"{hint_name(hint)} has values that are not strings, numbers, booleans or null")
    schema = {**notes, "enum": values} if len(kinds) > 1 else {**notes, "type": kinds.pop(), "enum": values}
    if is_convertible(hint):
        return HintSchema(schema, hint, plain=True)
    by_value: dict[Any, Any] = dict(zip(zip(types_of, values, strict=True), members, strict=True))
    listed = ", ".join(map(repr, values))

    def read(value: Any) -> Any:
        try:
            return by_value[type(value), value]
        except (KeyError, TypeError):
            raise ValueError(f"Expected one of {listed}") from None

    return HintSchema(schema, opaque(hint, read))
