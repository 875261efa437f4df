"""Results of tools: output schema from the return hint, and the check of each result."""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Union, cast

import msgspec

from dovetail.schema.error_text import with_path
from dovetail.schema.hints import pydantic_models
from dovetail.schema.hints.opaque_types import decode
from dovetail.schema.hints.reader import HintReader, HintSchema
from dovetail.schema.validation import Validator, compile_schema
from dovetail.server.signatures.binding import BadResult
from dovetail.types.client_features import InputRequired
from dovetail.types.serialization import Value

Check = Callable[[Any], Any]

_MAX_PATH = 20
"""Steps to the place in a result that an error names."""


def unchecked(value: Any) -> Any:
    """The check of a tool without an output schema."""
    return value


def nothing(value: Any) -> Any:
    """The check of a tool that returns nothing; raises BadResult for anything else."""
    if value is not None:
        raise BadResult(f"it is declared as -> None, and returned {type(value).__name__}")
    return value


def data_hint(hint: Any) -> Any:
    """The part of a return hint that is structured data; Any if the result may be content, or anything.

    `InputRequired` is not a result of the tool, so that it is not part of its schema.
    """
    origin = typing.get_origin(hint)
    if origin is Union or origin is types.UnionType:
        kept = [arg for arg in typing.get_args(hint) if arg is not InputRequired]
        hint = Union[tuple(kept)] if kept else InputRequired  # noqa: UP007 - built from a tuple
    return Any if hint is object or _has_content(hint) else hint


def _has_content(hint: Any) -> bool:
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return issubclass(hint, Value)
    return any(_has_content(arg) for arg in typing.get_args(hint))


def schema_and_check(hint: Any) -> tuple[dict[str, Any], Check]:
    """The output schema and the check for a return hint."""
    reader = HintReader("output")
    reading = reader.read(hint)
    schema = reader.definitions.rooted(reading.schema)
    general = _general(reading, schema)
    exact = _EXACT.get(hint) if isinstance(hint, type) else None
    return schema, general if exact is None else exact(general)


def by_schema(schema: dict[str, Any]) -> Check:
    """The check for a schema written by hand; raises LocalError if the schema is not valid."""
    validator = compile_schema(schema)

    def check(value: Any) -> Any:
        data = json_builtins(value)
        _validate(validator, data)
        return data

    return check


def json_builtins(value: Any, name: str = "the result") -> Any:
    """A value as JSON builtins; raises BadResult, which calls it by name, if it cannot be converted to JSON."""
    try:
        # Through JSON and back, so that the check sees what the client will get: NaN as null, tuples as arrays.
        return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_encode))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        path, reason = _unwritable(value, error)
        raise NotJson(f"{name} cannot be written as JSON: {with_path(path, reason)}") from error


class NotJson(BadResult):
    """A handler returned a value that JSON cannot represent."""


def _unwritable(value: Any, error: Exception) -> tuple[list[int | str], str]:
    """The place in a value that cannot be written as JSON, and the reason."""
    path: list[int | str] = []
    while len(path) < _MAX_PATH:
        for step, part in _parts(value):
            try:
                msgspec.json.encode(part, enc_hook=_encode)
            except (TypeError, ValueError, OverflowError, RecursionError) as inner:
                path.append(step)
                value, error = part, inner
                break
        else:
            break
    return path, str(error)


def _parts(value: Any) -> Iterable[tuple[int | str, Any]]:
    """The parts of a value with their places: items, entries or fields."""
    if isinstance(value, Mapping):
        return [
            (key if isinstance(key, str) else repr(key), part) for key, part in cast("Mapping[Any, Any]", value).items()
        ]
    if isinstance(value, (list, tuple)):
        return enumerate(cast("Sequence[Any]", value))
    if isinstance(value, msgspec.Struct):
        return [(name, getattr(value, name)) for name in value.__struct_fields__]
    if not isinstance(value, type) and isinstance(fields := getattr(value, "__dataclass_fields__", None), dict):
        return [(name, getattr(value, name, None)) for name in cast("dict[str, Any]", fields)]
    return ()


def _encode(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    return pydantic_models.dump_any(value)


def _general(reading: HintSchema, schema: dict[str, Any]) -> Check:
    wire, model, needs_schema = reading.wire, reading.model, reading.needs_schema
    compiled: list[Validator] = [compile_schema(schema)] if needs_schema else []

    def validator() -> Validator:
        if not compiled:
            compiled.append(compile_schema(schema))
        return compiled[0]

    def check(value: Any) -> Any:
        if model is not None:
            try:
                return model.dump(value)
            except ValueError as error:
                raise BadResult(str(error)) from error
        data = json_builtins(value)
        try:
            msgspec.convert(data, wire, str_keys=True, dec_hook=decode)
        except msgspec.ValidationError:
            _validate(validator(), data)
        else:
            if needs_schema:
                _validate(validator(), data)
        return data

    return check


def _validate(validator: Validator, data: Any) -> None:
    """Raise BadResult for data that does not match the schema; 5.0 is an integer to JSON Schema, not to msgspec."""
    problems = validator.problems(data)
    if problems:
        raise BadResult("; ".join(problems))


def _number(general: Check) -> Check:
    def check(value: Any) -> Any:
        if type(value) is int or (type(value) is float and isfinite(value)):
            return value
        return general(value)

    return check


def _exactly(kind: type) -> Callable[[Check], Check]:
    def make(general: Check) -> Check:
        def check(value: Any) -> Any:
            return value if type(value) is kind else general(value)

        return check

    return make


_EXACT: dict[type, Callable[[Check], Check]] = {
    str: _exactly(str),
    int: _exactly(int),
    float: _number,
    bool: _exactly(bool),
}
