"""Values with every field filled in, and every type there is."""

import importlib
import pkgutil
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec.structs import fields

import dovetail.types
from dovetail.types.client_features import ElicitResult
from dovetail.types.content import BlobContents, Contents, TextContents
from dovetail.types.serialization import Value

META: dict[str, Any] = {
    "progressToken": "token",
    "io.modelcontextprotocol/protocolVersion": "1",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/subscriptionId": 1,
    "example.com/note": {"a": "b"},
}
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
BY_NAME: dict[str, Any] = {
    "meta": META,
    "uri": "https://example.com/a",
    "url": "https://example.com/a",
    "src": "https://example.com/a.png",
    "website_url": "https://example.com",
    "uri_template": "file:///{path}",
    "input_schema": SCHEMA,
    "output_schema": SCHEMA,
    "requested_schema": SCHEMA,
    "input_responses": {"q": {"action": "decline"}},
}
PLAIN: dict[Any, Any] = {str: "text", int: 1, float: 0.5, bool: True, bytes: b"bytes", Any: {"k": "v"}}


def kinds() -> list[type[Value]]:
    """Every type of value in the room, the base aside."""
    found: dict[str, type[Value]] = {}
    for module in pkgutil.iter_modules(dovetail.types.__path__):
        names = vars(importlib.import_module(f"dovetail.types.{module.name}"))
        for item in names.values():
            if isinstance(item, type) and issubclass(item, Value) and item is not Value:
                found[item.__name__] = item
    return [found[name] for name in sorted(found)]


def full(kind: type[Value]) -> Any:
    """A value of this type with every field that travels filled in."""
    if kind is ElicitResult:
        return ElicitResult("accept", {"field": "text"}, meta=META)
    return kind(
        **{
            field.name: _named(field.name, field.type) or _sample(field.type)
            for field in fields(kind)
            if not field.encode_name.startswith("\x7f")
        }
    )


def _named(name: str, hint: Any) -> Any:
    sample = BY_NAME.get(name)
    return None if isinstance(sample, str) and str not in (hint, *get_args(hint)) else sample


def _sample(hint: Any) -> Any:
    if hint in PLAIN:
        return PLAIN[hint]
    if hint is Contents:
        return full(TextContents)
    if isinstance(hint, type) and issubclass(hint, Value):
        return full(hint)
    origin, parts = get_origin(hint), [part for part in get_args(hint) if part is not NoneType]
    if origin is Literal:
        return parts[0]
    if origin is dict:
        return {"key": _sample(parts[1])}
    if origin is list:
        if parts[0] is Contents:
            return [full(TextContents), full(BlobContents)]
        return [_sample(part) for part in get_args(parts[0]) or parts] if _is_union(parts[0]) else [_sample(parts[0])]
    assert _is_union(hint), hint
    lists = [part for part in parts if get_origin(part) is list]
    return _sample(lists[0] if lists else parts[-1])


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (UnionType, Union)


def nodes(value: Any, obj: Any) -> Iterator[tuple[Value, dict[str, Any]]]:
    """Every value within a value, beside the plain object that stands for it."""
    if isinstance(value, Value):
        yield value, obj
        for field in fields(type(value)):
            if field.encode_name in obj:
                yield from nodes(getattr(value, field.name), obj[field.encode_name])
    elif isinstance(value, list):
        for item, plain in zip(value, obj, strict=True):
            yield from nodes(item, plain)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from nodes(item, obj[key])


def copy(obj: Any) -> Any:
    """The same JSON, sharing nothing."""
    return msgspec.json.decode(msgspec.json.encode(obj))
