"""Values, and the two ways between them and plain JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import NoneType
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec.structs import fields as struct_fields

_LOCAL = "\x7f"
"""Begins the wire name of a field that never travels."""

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


class Either:
    """A place where one of several values stands, told apart by what is in it and not by a tag."""

    __slots__ = ()

    @classmethod
    def choose(cls, obj: Mapping[str, object]) -> type[Value]:
        """The type that this object is of."""
        raise NotImplementedError


V = TypeVar("V", bound=Value)
JsonObject: TypeAlias = dict[str, Any]
Known: TypeAlias = Mapping[str, frozenset[str]]
Adapt: TypeAlias = Callable[[Any], Value]


_Attach: TypeAlias = Callable[[Any, Any], None]
_Layout: TypeAlias = tuple[frozenset[str], tuple[tuple[str, str, _Attach], ...], tuple[tuple[str, Any], ...]]
"""Of a class: its wire names; attribute, wire name and way in of the fields that may hold further values; and
the fields that never travel, with their defaults."""

_Inner: TypeAlias = Callable[[Any], Any]
_Plan: TypeAlias = tuple[
    JsonObject,
    Callable[[Value], tuple[Any, ...]],
    tuple[tuple[str, Any, Any, _Inner | None], ...],
    frozenset[str],
    Adapt | None,
]
"""Of a class on one wire: its tag, the reader of its attributes, and for each of these the wire name, the two
values that are left out, and how to write what it holds; its wire names; and how to adapt it first."""

_layouts: dict[type[Value], _Layout] = {}


def load(kind: type[V], obj: object) -> V:
    """Read a plain object as a value; what its types do not know is kept in `extra`, at every depth.

    Raises `msgspec.ValidationError`, whose text names the path.
    """
    try:
        value = msgspec.convert(obj, kind, dec_hook=_choose)
    except msgspec.ValidationError as problem:
        value = _load_integral(kind, obj, problem)
    _attach(value, cast(JsonObject, obj))
    return value


def _load_integral(kind: type[V], obj: object, problem: msgspec.ValidationError) -> V:
    """A second look, for JSON Schema calls 5.0 an integer and msgspec does not."""
    try:
        plainer = integers_from_floats(obj)
    except RecursionError:
        raise problem from None
    if plainer is obj:
        raise problem
    return msgspec.convert(plainer, kind, dec_hook=_choose)


def _choose(kind: type[Any], obj: object) -> Value:
    if not issubclass(kind, Either) or not isinstance(obj, dict):
        raise ValueError(f"Expected `object`, got `{type(obj).__name__}`")
    try:
        return msgspec.convert(obj, kind.choose(cast(JsonObject, obj)))
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


def _attach(value: Value, obj: JsonObject) -> None:
    names, nested, local = _layouts.get(type(value)) or _layout(type(value))
    if not obj.keys() <= names:
        value.extra = {key: item for key, item in obj.items() if key not in names}
        for name, default in local:
            setattr(value, name, default)
    for name, wire, attach in nested:
        raw = obj.get(wire)
        if raw:
            attach(getattr(value, name), raw)


def _attach_each(values: list[Value], objs: list[JsonObject]) -> None:
    for value, obj in zip(values, objs, strict=True):
        _attach(value, obj)


def _attach_within(held: Any, raw: Any) -> None:
    if isinstance(held, list):
        for item, source in zip(cast("list[Any]", held), raw, strict=True):
            _attach_within(item, source)
    elif isinstance(held, dict):
        for key, item in cast(JsonObject, held).items():
            _attach_within(item, raw[key])
    elif isinstance(held, Value):
        _attach(held, raw)


_ATTACH: dict[str, _Attach] = {"one": _attach, "many": _attach_each, "mixed": _attach_within}


def _layout(kind: type[Value]) -> _Layout:
    own = struct_fields(kind)
    tag_field = kind.__struct_config__.tag_field
    names = {field.encode_name for field in own if not field.encode_name.startswith(_LOCAL)}
    holdings = [(field, _holding(field.type)) for field in own]
    layout = (
        frozenset(names | {tag_field} if tag_field else names),
        tuple((field.name, field.encode_name, _ATTACH[held]) for field, held in holdings if held in _ATTACH),
        tuple(
            (field.name, field.default)
            for field in own
            if field.encode_name.startswith(_LOCAL) and field.name != "extra"
        ),
    )
    _layouts[kind] = layout
    return layout


def _holding(hint: Any) -> str:
    """What such a field may hold: "one" value, "many" in a list, "mixed", "bytes", or "plain" JSON."""
    parts = [part for part in get_args(hint) or (hint,) if part is not NoneType]
    origin = get_origin(hint)
    if origin is list or origin is dict:
        held = _holding(parts[-1])
        if held == "plain":
            return held
        return "many" if origin is list and held == "one" else "mixed"
    if len(parts) == 1 and parts[0] is not hint:
        return _holding(parts[0])
    if len(parts) > 1:
        kinds = {_holding(part) for part in parts}
        return kinds.pop() if len(kinds) == 1 else "mixed" if kinds & _ATTACH.keys() else "plain"
    if hint is bytes:
        return "bytes"
    return "one" if isinstance(hint, type) and issubclass(hint, (Value, Either)) else "plain"


class Writer:
    """Writes values for one wire: a table of the fields it knows, and what values become on it.

    `adapt` names, by class, a function that turns a value into one that this wire can carry.
    """

    __slots__ = ("_adapt", "_known", "_plans")

    def __init__(self, known: Known | None = None, adapt: Mapping[type[Value], Adapt] | None = None) -> None:
        self._known = known
        self._adapt = adapt or {}
        self._plans: dict[type[Value], _Plan] = {}

    def write(self, value: Value) -> JsonObject:
        """The value as a plain object; parts without types of their own are shared, not copied."""
        tag, read, fields, names, adapt = self._plans.get(type(value)) or self._plan(type(value))
        if adapt is not None:
            adapted = adapt(value)
            if adapted is not value:
                value = adapted
                tag, read, fields, names, _ = self._plans.get(type(value)) or self._plan(type(value))
        out = tag.copy()
        for (wire, default, null, inner), item in zip(fields, read(value), strict=False):
            if item is not default and item is not null:
                out[wire] = item if inner is None else inner(item)
        if value.extra:
            for key, item in value.extra.items():
                if key not in names:
                    out[key] = item
        return out

    def _write_each(self, values: list[Value]) -> list[JsonObject]:
        return [self.write(value) for value in values]

    def _write_within(self, held: Any) -> Any:
        if isinstance(held, list):
            return [self._write_within(item) for item in cast("list[Any]", held)]
        if isinstance(held, dict):
            return {key: self._write_within(item) for key, item in cast(JsonObject, held).items()}
        return self.write(held) if isinstance(held, Value) else held

    def _plan(self, kind: type[Value]) -> _Plan:
        own = [field for field in struct_fields(kind) if not field.encode_name.startswith(_LOCAL)]
        known = self._known.get(kind.__name__) if self._known is not None else None
        sent = [field for field in own if known is None or field.encode_name in known]
        config = kind.__struct_config__
        attributes = [field.name for field in sent]
        attributes += ["extra"] * (2 - len(attributes))  # attrgetter gives a tuple for two names and more
        inner: dict[str, _Inner] = {
            "one": self.write,
            "many": self._write_each,
            "mixed": self._write_within,
            "bytes": msgspec.to_builtins,
        }
        plan = (
            {config.tag_field: config.tag} if config.tag_field else {},
            attrgetter(*attributes),
            tuple(
                (
                    field.encode_name,
                    field.default,
                    # Null says something only in required fields and in those whose default is UNSET.
                    field.default if field.required or field.default is msgspec.UNSET else None,
                    inner.get(_holding(field.type)),
                )
                for field in sent
            ),
            frozenset(field.encode_name for field in own),
            self._adapt.get(kind),
        )
        self._plans[kind] = plan
        return plan


_everything = Writer()


def dump(value: Value, known: Known | None = None) -> JsonObject:
    """The value as a plain object, without the fields that `known` does not list for its type.

    A type that `known` does not name is written whole; unknown fields survive.
    """
    return (_everything if known is None else Writer(known)).write(value)
