"""Defaults of parameters: they must fit their type hints, and mutable ones are copied for each call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.schema.hints.opaque_types import decode
from dovetail.schema.hints.type_support import HintSchema
from dovetail.schema.validation import compile_schema
from dovetail.server.signatures.binding import BadResult
from dovetail.server.signatures.hints import Parameter
from dovetail.server.signatures.results import json_builtins

IMMUTABLE = (str, int, float, bool, type(None), bytes)
_ATOMS = frozenset((*IMMUTABLE, complex))
_CONTAINERS = (list, dict, set, bytearray)
_LIMITS = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("pattern", "format", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    }
)


def check_default(owner: str, parameter: Parameter, reading: HintSchema, definitions: dict[str, Any]) -> None:
    """Raise LocalError for a default of another type than the hint.

    A default beyond the limits of its parameter, such as 0 where at least 1 is allowed, stands for a missing argument.
    So does an object that JSON cannot represent.
    """
    default = parameter.default
    if reading.model is not None:
        return
    try:
        value = default if type(default) in _ATOMS else json_builtins(default)
    except BadResult:
        return
    try:
        msgspec.convert(value, reading.wire, str_keys=True, dec_hook=decode)
    except (msgspec.ValidationError, ValueError):
        schema = _without_limits({**reading.schema, "$defs": definitions})
        if problems := compile_schema(schema).problems(value):
            raise LocalError(f"{owner}(): the default of {parameter.name} {problems[0]}") from None


def fresh_default(default: Any) -> Callable[[], Any] | None:
    """A function that makes a copy of a mutable default for each call; None for any other default.

    Python shares such a default between all calls, so that one caller would see what another one added to it.
    """
    if type(default) in _CONTAINERS:
        if not default:
            return cast("Callable[[], Any]", type(default))
        return default.copy if _is_flat(default) else _deep_copies(default)
    return _deep_copies(default) if _is_mutable_record(default) else None


def _deep_copies(default: Any) -> Callable[[], Any]:
    import copy

    return functools.partial(copy.deepcopy, default)


def _is_flat(container: Any) -> bool:
    values = cast("dict[Any, Any]", container).values() if isinstance(container, dict) else container
    return all(type(value) in _ATOMS for value in values)


def _is_mutable_record(value: Any) -> bool:
    if isinstance(value, type):
        return False
    if isinstance(value, msgspec.Struct):
        return not value.__struct_config__.frozen
    params = getattr(value, "__dataclass_params__", None)  # without importing dataclasses
    return params is not None and not params.frozen


def _without_limits(schema: Any) -> Any:
    """A schema that checks types and fixed values only."""
    if isinstance(schema, dict):
        fields = cast("dict[str, Any]", schema)
        return {key: _without_limits(value) for key, value in fields.items() if not _is_limit(key, value)}
    return [_without_limits(item) for item in cast("list[Any]", schema)] if isinstance(schema, list) else schema


def _is_limit(key: str, value: Any) -> bool:
    # A property may have the name of a keyword; its schema is an object, which no limit is.
    return key in _LIMITS and not isinstance(value, dict)
