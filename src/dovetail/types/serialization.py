"""Conversion between protocol values (msgspec structs) and plain JSON objects.

`load` reads a plain object as a value and keeps unknown fields; a `Serializer` writes a value for one revision of the
protocol, with the fields that the revision knows. Both work from plans made once per class: `LoadPlan`, `TypePlan`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from operator import attrgetter
from types import NoneType
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec.structs import fields as struct_fields

_LOCAL = "\x7f"
"""Begins the wire name of a Python-side field, which is never sent; no field of the protocol begins with it."""

MAX_EXACT_FLOAT = 2.0**53
"""Floats below it represent each integer exactly; from here on a float may stand for another integer nearby."""


def local_field(name: str) -> str:
    """The wire name that keeps a Python-side field off the wire."""
    return _LOCAL + name


class Value(msgspec.Struct, kw_only=True, omit_defaults=True, repr_omit_defaults=True, rename="camel"):
    """The base of every value of the protocol.

    `extra` holds the fields that the type does not know; on the wire they stand beside the known ones.
    """

    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
    extra: dict[str, Any] = msgspec.field(default={}, name=_LOCAL + "extra")


class UntaggedUnion:
    """A union of value types without a tag on the wire; the fields of an object decide its type."""

    __slots__ = ()

    @classmethod
    def select_type(cls, obj: Mapping[str, object]) -> type[Value]:
        """The member of the union that this object is read as."""
        raise NotImplementedError


V = TypeVar("V", bound=Value)
JsonObject: TypeAlias = dict[str, Any]
KnownFields: TypeAlias = Mapping[str, frozenset[str]]
"""The wire names of the fields of each type, by the name of its class."""
Adapter: TypeAlias = Callable[[Any], Value]
"""Turns a value into one that a revision can carry; returns the value itself if it can already."""


class Holding(Enum):
    """The kind of data that a field may hold, which decides how it is read and written."""

    PLAIN = "plain JSON"
    BYTES = "bytes"
    VALUE = "one value"
    VALUE_LIST = "a list of values"
    NESTED = "values somewhere inside lists, dicts or unions"


_SetExtra: TypeAlias = Callable[[Any, Any], None]
_WriteItem: TypeAlias = Callable[[Any], Any]


# Plans are structs and not dataclasses, whose module takes long to import.
class NestedField(msgspec.Struct, eq=False):
    """A field that holds further values, whose unknown fields are to be kept too."""

    name: str
    wire_name: str
    set_extra: _SetExtra


class LoadPlan(msgspec.Struct, eq=False):
    """The parts of a class that loading needs after msgspec has converted the known fields."""

    wire_names: frozenset[str]
    nested: tuple[NestedField, ...]
    local_defaults: tuple[tuple[str, Any], ...]
    """Python-side fields, by name, with their defaults."""


class FieldPlan(msgspec.Struct, eq=False):
    """One field on one revision: its wire name, the two values that are left out, and the writer of its content."""

    wire_name: str
    default: Any
    omitted_null: Any
    """None where null is left out, and again the default where null says something."""
    write: _WriteItem | None
    """None for content that is JSON already."""


class TypePlan(msgspec.Struct, eq=False):
    """One class on one revision; `read_fields` returns the attributes in the order of `fields`."""

    tag: JsonObject
    read_fields: Callable[[Value], tuple[Any, ...]]
    fields: tuple[FieldPlan, ...]
    wire_names: frozenset[str]
    """The names of all fields of the class: an unknown field never overwrites one of them."""
    adapt: Adapter | None


_load_plans: dict[type[Value], LoadPlan] = {}


def load(kind: type[V], obj: object) -> V:
    """Read a plain object as a value; fields that its types do not know are kept in `extra`, at every depth.

    Raises `msgspec.ValidationError`, whose text names the path.
    """
    try:
        value = msgspec.convert(obj, kind, dec_hook=_load_union)
    except msgspec.ValidationError as problem:
        value = _load_with_integers(kind, obj, problem)
    _set_extra(value, cast(JsonObject, obj))
    return value


def _load_with_integers(kind: type[V], obj: object, problem: msgspec.ValidationError) -> V:
    """Load once more with integral floats as integers: JSON Schema calls 5.0 an integer and msgspec does not."""
    try:
        converted = integers_from_floats(obj)
    except RecursionError:
        raise problem from None
    if converted is obj:
        raise problem
    return msgspec.convert(converted, kind, dec_hook=_load_union)


def _load_union(kind: type[Any], obj: object) -> Value:
    if not issubclass(kind, UntaggedUnion) or not isinstance(obj, dict):
        raise ValueError(f"Expected `object`, got `{type(obj).__name__}`")
    try:
        return msgspec.convert(obj, kind.select_type(cast(JsonObject, obj)))
    except msgspec.ValidationError as problem:
        raise ValueError(str(problem)) from None  # msgspec adds the outer path to a ValueError only


def integers_from_floats(value: Any) -> Any:
    """Replace integral floats by integers at every depth, since 5.0 is an integer to JSON Schema and not to msgspec.

    Floats that are not exact (`MAX_EXACT_FLOAT`) stay floats, so that they are refused where an integer is needed
    and no wrong integer comes out of them. Returns the same object if there is nothing to replace; raises
    RecursionError for one that is nested too deeply.
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < MAX_EXACT_FLOAT else value
    if isinstance(value, dict):
        members = cast(JsonObject, value)
        changed = {key: integers_from_floats(item) for key, item in members.items()}
        return changed if any(changed[key] is not item for key, item in members.items()) else members
    if isinstance(value, list):
        items = cast("list[Any]", value)
        replaced = [integers_from_floats(item) for item in items]
        return replaced if any(a is not b for a, b in zip(replaced, items, strict=True)) else items
    return value


def _set_extra(value: Value, obj: JsonObject) -> None:
    """Keep the unknown fields of an object in `extra`, and those of the objects inside it in theirs."""
    plan = _load_plans.get(type(value)) or _load_plan(type(value))
    names = plan.wire_names
    if not obj.keys() <= names:
        value.extra = {key: item for key, item in obj.items() if key not in names}
        # A peer that sends the wire name of a Python-side field must not set it.
        for name, default in plan.local_defaults:
            setattr(value, name, default)
    for field in plan.nested:
        raw = obj.get(field.wire_name)
        if raw:
            field.set_extra(getattr(value, field.name), raw)


def _set_extra_of_each(values: list[Value], objs: list[JsonObject]) -> None:
    for value, obj in zip(values, objs, strict=True):
        _set_extra(value, obj)


def _set_extra_within(content: Any, raw: Any) -> None:
    if isinstance(content, list):
        for item, source in zip(cast("list[Any]", content), raw, strict=True):
            _set_extra_within(item, source)
    elif isinstance(content, dict):
        for key, item in cast(JsonObject, content).items():
            _set_extra_within(item, raw[key])
    elif isinstance(content, Value):
        _set_extra(content, raw)


_SET_EXTRA: dict[Holding, _SetExtra] = {
    Holding.VALUE: _set_extra,
    Holding.VALUE_LIST: _set_extra_of_each,
    Holding.NESTED: _set_extra_within,
}


def _load_plan(kind: type[Value]) -> LoadPlan:
    own = struct_fields(kind)
    tag_field = kind.__struct_config__.tag_field
    names = {field.encode_name for field in own if not field.encode_name.startswith(_LOCAL)}
    holdings = [(field, _holding(field.type)) for field in own]
    plan = LoadPlan(
        wire_names=frozenset(names | {tag_field} if tag_field else names),
        nested=tuple(
            NestedField(field.name, field.encode_name, _SET_EXTRA[holding])
            for field, holding in holdings
            if holding in _SET_EXTRA
        ),
        local_defaults=tuple(
            (field.name, field.default)
            for field in own
            if field.encode_name.startswith(_LOCAL) and field.name != "extra"
        ),
    )
    _load_plans[kind] = plan
    return plan


def _holding(hint: Any) -> Holding:
    """The kind of data that a field with this type hint may hold."""
    parts = [part for part in get_args(hint) or (hint,) if part is not NoneType]
    origin = get_origin(hint)
    if origin is list or origin is dict:
        item = _holding(parts[-1])
        if item is Holding.PLAIN:
            return item
        return Holding.VALUE_LIST if origin is list and item is Holding.VALUE else Holding.NESTED
    if len(parts) == 1 and parts[0] is not hint:
        return _holding(parts[0])
    if len(parts) > 1:
        kinds = {_holding(part) for part in parts}
        if len(kinds) == 1:
            return kinds.pop()
        return Holding.NESTED if kinds & _SET_EXTRA.keys() else Holding.PLAIN
    if hint is bytes:
        return Holding.BYTES
    is_value = isinstance(hint, type) and issubclass(hint, (Value, UntaggedUnion))
    return Holding.VALUE if is_value else Holding.PLAIN


class Serializer:
    """Writes values for one revision: with the fields it knows, adapted where it cannot carry a value as it is."""

    __slots__ = ("_adapters", "_known", "_plans")

    def __init__(self, known: KnownFields | None = None, adapters: Mapping[type[Value], Adapter] | None = None) -> None:
        self._known = known
        self._adapters = adapters or {}
        self._plans: dict[type[Value], TypePlan] = {}

    def write(self, value: Value) -> JsonObject:
        """The value as a plain object; parts without types of their own are shared, not copied."""
        plan = self._plans.get(type(value)) or self._plan(type(value))
        if plan.adapt is not None:
            adapted = plan.adapt(value)
            if adapted is not value:
                value = adapted
                plan = self._plans.get(type(value)) or self._plan(type(value))
        out = plan.tag.copy()
        # `zip` stops at the last field: `read_fields` may return one or two attributes more than there are fields.
        for field, item in zip(plan.fields, plan.read_fields(value), strict=False):
            if item is not field.default and item is not field.omitted_null:
                out[field.wire_name] = item if field.write is None else field.write(item)
        if value.extra:
            names = plan.wire_names
            for key, item in value.extra.items():
                if key not in names:
                    out[key] = item
        return out

    def _write_each(self, values: list[Value]) -> list[JsonObject]:
        return [self.write(value) for value in values]

    def _write_within(self, content: Any) -> Any:
        if isinstance(content, list):
            return [self._write_within(item) for item in cast("list[Any]", content)]
        if isinstance(content, dict):
            return {key: self._write_within(item) for key, item in cast(JsonObject, content).items()}
        return self.write(content) if isinstance(content, Value) else content

    def _plan(self, kind: type[Value]) -> TypePlan:
        own = [field for field in struct_fields(kind) if not field.encode_name.startswith(_LOCAL)]
        known = self._known.get(kind.__name__) if self._known is not None else None
        sent = [field for field in own if known is None or field.encode_name in known]
        config = kind.__struct_config__
        attributes = [field.name for field in sent]
        attributes += ["extra"] * (2 - len(attributes))  # attrgetter returns a tuple for two names and more only
        writers: dict[Holding, _WriteItem] = {
            Holding.VALUE: self.write,
            Holding.VALUE_LIST: self._write_each,
            Holding.NESTED: self._write_within,
            Holding.BYTES: msgspec.to_builtins,
        }
        plan = TypePlan(
            tag={config.tag_field: config.tag} if config.tag_field else {},
            read_fields=attrgetter(*attributes),
            fields=tuple(
                FieldPlan(
                    wire_name=field.encode_name,
                    default=field.default,
                    # Null says something only in required fields and in those whose default is UNSET.
                    omitted_null=field.default if field.required or field.default is msgspec.UNSET else None,
                    write=writers.get(_holding(field.type)),
                )
                for field in sent
            ),
            wire_names=frozenset(field.encode_name for field in own),
            adapt=self._adapters.get(kind),
        )
        self._plans[kind] = plan
        return plan


_write_all_fields = Serializer()


def dump(value: Value, known: KnownFields | None = None) -> JsonObject:
    """The value as a plain object, without the fields that `known` does not list for its type.

    A type that `known` does not name is written whole; unknown fields survive.
    """
    return (_write_all_fields if known is None else Serializer(known)).write(value)
