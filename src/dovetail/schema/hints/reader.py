"""JSON Schema of type hints, together with the type that msgspec converts to.

Both come from one traversal of the hint, so that they always agree. Primitives and containers are in tables; classes
with fields are described by msgspec, and pydantic types by pydantic.
"""

from __future__ import annotations

import enum
import types
import typing
from collections import abc
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, Union
from uuid import UUID

import msgspec

from dovetail.schema.hints import pydantic_models
from dovetail.schema.hints.definitions import REFS, Definitions, has_fixed_member, has_string_keyword, portable
from dovetail.schema.hints.enumerations import read_enum, read_literal
from dovetail.schema.hints.opaque_types import Alternative, is_opaque, opaque, opaque_union
from dovetail.schema.hints.param import Param, merge_metadata
from dovetail.schema.hints.type_support import HintSchema, Unsupported, check_convertible, hint_name, is_convertible

Direction = Literal["input", "output"]


_STRING = {"type": "string"}
_ARRAY: dict[str, Any] = {"type": "array", "items": {}}
"""An array of anything; model APIs refuse an array without `items`."""
_ATOMS: dict[Any, dict[str, Any]] = {
    str: _STRING,
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    types.NoneType: {"type": "null"},
    Any: {},
    object: {},
    bytes: {"type": "string", "contentEncoding": "base64"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    timedelta: {"type": "string", "format": "duration"},
    UUID: {"type": "string", "format": "uuid"},
    dict: {"type": "object"},
    list: _ARRAY,
    tuple: _ARRAY,
    set: _ARRAY,
    frozenset: _ARRAY,
}
_MEANT: dict[Any, str] = {any: "typing.Any", callable: "a JSON type: functions cannot be sent"}
"""Functions that are written as hints by mistake, and what is meant."""
_DECIMAL: dict[str, Any] = {"anyOf": [{"type": "number"}, _STRING]}
_WIRE: dict[Any, Any] = {object: Any, types.NoneType: None}
_ARRAYS: dict[Any, Any] = {
    list: list, set: set, frozenset: frozenset, abc.Set: frozenset, abc.MutableSet: set,
    abc.Sequence: list, abc.MutableSequence: list, abc.Collection: list, abc.Iterable: list,
}  # fmt: skip
_OBJECTS = frozenset({dict, abc.Mapping, abc.MutableMapping})
_NUMBER = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum",
           "multiple_of": "multipleOf"}  # fmt: skip
_LIMITS: dict[str, dict[str, str]] = {
    "integer": _NUMBER,
    "number": _NUMBER,
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}


class HintReader:
    """Converts hints for one schema document; definitions are shared, at its root."""

    def __init__(self, direction: Direction) -> None:
        self.direction: Direction = direction
        self.definitions = Definitions()

    def read(self, hint: Any) -> HintSchema:
        """Convert a hint; raises `Unsupported` if that is not possible."""
        atom = _atom(hint)
        if atom is not None:
            return HintSchema(dict(atom), _WIRE.get(hint, hint), plain=True)
        if pydantic_models.contains_pydantic(hint):
            return self._model(hint)
        origin = typing.get_origin(hint)
        if origin is not None:
            return self._generic(hint, origin, typing.get_args(hint))
        return self._class(hint)

    def _generic(self, hint: Any, origin: Any, args: tuple[Any, ...]) -> HintSchema:
        if origin is typing.Annotated:
            return self._limited(self.read(args[0]), args[0], merge_metadata(args[1:]))
        if origin is Union or origin is types.UnionType:
            return self._union(args)
        if origin is Literal:
            return read_literal(hint, args)
        if origin is tuple:
            return self._tuple(args)
        if origin in _ARRAYS:
            item = self.read(args[0])
            schema = {"type": "array", "items": item.schema}
            return HintSchema(schema, _ARRAYS[origin][item.wire], item.needs_schema, item.plain)
        if origin in _OBJECTS:
            return self._mapping(args)
        if isinstance(origin, type):
            return self._fields(hint)
        alias = getattr(origin, "__value__", None)
        if alias is not None:
            return self.read(alias[args])
        raise Unsupported(f"{hint_name(hint)} has no form in JSON Schema")

    def _class(self, hint: Any) -> HintSchema:
        if isinstance(hint, enum.EnumMeta):
            return read_enum(hint)
        if hint is Decimal:
            # Models write numbers; exact values are sent as strings, and output is strings only. There are clients that
            # cannot read a list of types, so that a union is always anyOf.
            return HintSchema(_DECIMAL if self.direction == "input" else _STRING, Decimal)
        if hint in _ARRAYS or hint in _OBJECTS:
            return HintSchema(_ARRAY if hint in _ARRAYS else {"type": "object"}, _ARRAYS.get(hint, dict))
        if isinstance(hint, typing.TypeVar):
            return self.read(hint.__bound__ or Any)
        for attribute in ("__supertype__", "__value__"):
            if hasattr(hint, attribute):
                return self.read(getattr(hint, attribute))
        if not isinstance(hint, type):
            meant = _MEANT.get(hint) if isinstance(hint, abc.Hashable) else None
            advice = "" if meant is None else f"; did you mean {meant}?"
            raise Unsupported(f"{hint_name(hint)} has no form in JSON Schema{advice}")
        if hasattr(hint, "__fspath__"):
            return HintSchema({"type": "string", "format": "path"}, opaque(hint, lambda value: _path(hint, value)))
        return self._fields(hint)

    def _fields(self, hint: Any) -> HintSchema:
        """A class with fields: dataclass, TypedDict, NamedTuple, attrs or msgspec struct."""
        if not _has_fields(typing.get_origin(hint) or hint):
            raise Unsupported(
                f"{hint_name(hint)} has no form in JSON Schema; use a dataclass, TypedDict, NamedTuple, "
                "attrs class, msgspec Struct or pydantic model"
            )
        try:
            (schema,), components = msgspec.json.schema_components([hint], ref_template=REFS)
            check_convertible(hint)
        except (TypeError, NameError) as error:
            # The message of msgspec has several lines of advice for its own users; the last one names the type.
            raise Unsupported(f"{hint_name(hint)} cannot be described: {str(error).splitlines()[-1]}") from error
        needs = has_string_keyword(components, "pattern") or has_fixed_member(components)
        portable_components = {name: portable(body) for name, body in components.items()}
        return HintSchema(self.definitions.merge(portable(schema), portable_components), hint, needs)

    def _model(self, hint: Any) -> HintSchema:
        param = merge_metadata(getattr(hint, "__metadata__", ()))
        if any(isinstance(item, Param) and item.limits() for item in getattr(hint, "__metadata__", ())):
            raise Unsupported(f"{hint_name(hint)} is a pydantic type: give limits with pydantic.Field, not with Param")
        try:
            model = pydantic_models.PydanticType(hint)
            schema = model.schema(self.direction)
        except Exception as error:
            raise Unsupported(f"{hint_name(hint)} is refused by pydantic: {error}") from error
        definitions = schema.pop("$defs", {})
        schema = {**self.definitions.merge(schema, definitions), **param.notes()}
        return HintSchema(schema, opaque(hint, model.load), model=model)

    def _union(self, args: tuple[Any, ...]) -> HintSchema:
        hints = sorted(args, key=lambda arg: arg is types.NoneType)
        readings = [self.read(arg) for arg in hints]
        schemas: list[dict[str, Any]] = []
        for reading in readings:
            # A union inside an alias or Annotated would be nested: the alternatives become one flat list.
            parts = reading.schema["anyOf"] if set(reading.schema) == {"anyOf"} else [reading.schema]
            schemas += [part for part in parts if part not in schemas]
        schema = {"anyOf": schemas} if len(schemas) > 1 else schemas[0]
        if not all(schemas):
            schema = {}
        needs = any(reading.needs_schema for reading in readings)
        wires = tuple(reading.wire for reading in readings)
        wire = Union[wires]  # noqa: UP007 - built from a tuple
        if len(wires) == 2 and wires[1] is None and not is_opaque(wires[0]):
            return HintSchema(schema, wire, needs, readings[0].plain)
        if any(is_opaque(w) for w in wires) or not is_convertible(wire):
            wire = opaque_union([Alternative(r.wire, self._names(r.schema)) for r in readings], _expected(schemas))
        return HintSchema(schema, wire, needs)

    def _names(self, schema: dict[str, Any]) -> frozenset[str]:
        return frozenset(self.definitions.resolve(schema).get("properties", ()))

    def _tuple(self, args: tuple[Any, ...]) -> HintSchema:
        if len(args) == 2 and args[1] is Ellipsis:
            item = self.read(args[0])
            return HintSchema({"type": "array", "items": item.schema}, tuple[item.wire, ...], item.needs_schema)
        items = [self.read(arg) for arg in args]
        schema: dict[str, Any] = {"type": "array", "minItems": len(items), "maxItems": len(items)}
        if items:
            schema["prefixItems"] = [item.schema for item in items]
        wire: Any = tuple[tuple(item.wire for item in items)]  # pyright: ignore[reportInvalidTypeArguments]
        return HintSchema(schema, wire, any(item.needs_schema for item in items))

    def _mapping(self, args: tuple[Any, ...]) -> HintSchema:
        key, value = self.read(args[0]), self.read(args[1])
        schema: dict[str, Any] = {"type": "object"}
        if value.schema:
            schema["additionalProperties"] = value.schema
        if "enum" in key.schema:
            schema["propertyNames"] = {"enum": [str(value) for value in key.schema["enum"]]}
        elif key.schema.get("type") == "integer":
            schema["propertyNames"] = {"pattern": "^(0|-?[1-9][0-9]*)$"}
        elif key.schema not in ({}, _STRING):
            schema["propertyNames"] = key.schema
        needs = key.needs_schema or value.needs_schema
        return HintSchema(schema, dict[key.wire, value.wire], needs, value.plain and key.schema == _STRING)

    def _limited(self, reading: HintSchema, hint: Any, param: Param) -> HintSchema:
        limits = param.limits()
        if limits:
            reading = self._limit(reading, hint, limits)
        notes = param.notes()
        return msgspec.structs.replace(reading, schema={**reading.schema, **notes}) if notes else reading

    def _limit(self, reading: HintSchema, hint: Any, limits: dict[str, Any]) -> HintSchema:
        origin = typing.get_origin(hint)
        if origin is Union or origin is types.UnionType:
            return self._limit_union(hint, limits)
        keywords = _LIMITS.get(str(reading.schema.get("type")), {})
        wrong = [name for name in limits if name not in keywords]
        if wrong:
            raise Unsupported(f"{wrong[0]}= does not apply to {hint_name(hint)}")
        schema = {**reading.schema, **{keywords[name]: value for name, value in limits.items()}}
        checked = {name: value for name, value in limits.items() if _checked_by_msgspec(name, value)}
        needs = reading.needs_schema or len(checked) < len(limits) or is_opaque(reading.wire)
        wire = reading.wire
        if checked and not is_opaque(wire):
            wire = typing.Annotated[wire, msgspec.Meta(**checked)]
            if not is_convertible(wire):
                wire, needs = reading.wire, True
        return HintSchema(schema, wire, needs)

    def _limit_union(self, hint: Any, limits: dict[str, Any]) -> HintSchema:
        """Apply limits on a union to the members that they fit."""
        members: list[Any] = []
        used: set[str] = set()
        for member in typing.get_args(hint):
            fitting = _LIMITS.get(str(self.read(member).schema.get("type")), {})
            limits_of_member = {name: value for name, value in limits.items() if name in fitting}
            used |= limits_of_member.keys()
            members.append(typing.Annotated[member, Param(**limits_of_member)] if limits_of_member else member)
        wrong = [name for name in limits if name not in used]
        if wrong:
            raise Unsupported(f"{wrong[0]}= does not apply to {hint_name(hint)}")
        return self._union(tuple(members))


def _atom(hint: Any) -> dict[str, Any] | None:
    try:
        return _ATOMS.get(hint)
    except TypeError:
        return None


def _path(hint: Any, value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
    return hint(value)


def _has_fields(hint: Any) -> bool:
    return (
        isinstance(hint, type(msgspec.Struct))
        or hasattr(hint, "__dataclass_fields__")
        or hasattr(hint, "__attrs_attrs__")
        or hasattr(hint, "__total__")
        or (hasattr(hint, "_fields") and tuple in getattr(hint, "__mro__", ()))
    )


def _checked_by_msgspec(name: str, value: Any) -> bool:
    # JSON Schema divides decimals exactly, msgspec binary floats: they agree on integers only.
    return name != "pattern" and (name != "multiple_of" or isinstance(value, int))


def _expected(schemas: list[dict[str, Any]]) -> str:
    names = [s.get("title") or s.get("type") or s.get("$ref", "value").rpartition("/")[2] for s in schemas]
    return " or ".join(dict.fromkeys(map(str, names)))
