"""Conversion of JSON values to the type that a hint names: data that came from a peer, or out of a journal."""

from __future__ import annotations

import collections.abc
import functools
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from dovetail.schema.error_text import conversion_error, with_path
from dovetail.schema.validation import Validator, compile_schema
from dovetail.types.errors import LocalError
from dovetail.types.serialization import integers_from_floats

from .opaque_types import decode
from .reader import HintReader
from .type_support import Unsupported, hint_name

_AWAITABLES = (collections.abc.Awaitable, collections.abc.Coroutine)


class Converter:
    """The conversion to one type: a dataclass, TypedDict, msgspec, attrs or pydantic class, or a plain hint."""

    def __init__(self, hint: Any) -> None:
        reader = HintReader("input")
        try:
            reading = reader.read(hint)
        except Unsupported as problem:
            raise LocalError(f"JSON cannot be converted to {hint_name(hint)}: {problem}") from problem
        self.name = hint_name(hint)
        self._wire, self._model = reading.wire, reading.model
        self._validator: Validator | None = None
        if reading.needs_schema and self._model is None:
            self._validator = compile_schema(reader.definitions.rooted(reading.schema))

    def convert(self, value: Any) -> Any:
        """The value as the type; raises ValueError with every problem and its path."""
        if self._validator is not None and (problems := self._validator.problems(value)):
            raise ValueError("; ".join(problems))
        try:
            return msgspec.convert(value, self._wire, str_keys=True, dec_hook=decode)
        except msgspec.ValidationError as error:
            if self._model is not None:
                found = [with_path(path, text) for path, text in self._model.problems(value)]
                raise ValueError("; ".join(found) or conversion_error(error)) from error
        try:
            # To JSON 5.0 is an integer.
            return msgspec.convert(integers_from_floats(value), self._wire, str_keys=True, dec_hook=decode)
        except msgspec.ValidationError as error:
            raise ValueError(conversion_error(error)) from error


def converter_for(hint: Any) -> Converter:
    """The conversion to a type; raises LocalError for one that JSON cannot be converted to."""
    try:
        hash(hint)
    except TypeError:
        return Converter(hint)
    return _cached(hint, str(hint))


@functools.lru_cache(maxsize=512)
def _cached(hint: Any, _written: str) -> Converter:
    # Hints with the same options in another order are equal, but are different types.
    return Converter(hint)


def return_hint(function: Callable[..., Any]) -> Any:
    """The hint of what a function returns, or of what its coroutine does; Any if there is none that can be read."""
    while isinstance(function, functools.partial):
        function = function.func
    if "return" not in getattr(function, "__annotations__", {}):
        return Any
    try:
        hint = typing.get_type_hints(function, include_extras=True)["return"]
    except Exception:
        return Any
    if typing.get_origin(hint) in _AWAITABLES:
        return typing.get_args(hint)[-1]
    return hint
