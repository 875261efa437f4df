"""Check of tool definitions against the rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from . import rules
from .rules import DEFAULT_PROFILES, RULES, Profile, Rule
from .walk import Place, Schema, object_of, places, recursive_references

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PROPERTY_GEMINI = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_COMPOSITION = ("anyOf", "oneOf", "allOf")
_UNKNOWN_GEMINI = frozenset(
    {"const", "oneOf", "allOf", "not", "if", "then", "else", "exclusiveMinimum", "exclusiveMaximum"}
    | {"patternProperties", "prefixItems", "contains", "dependentRequired", "dependentSchemas", "propertyNames"}
    | {"unevaluatedProperties", "unevaluatedItems"}
)
_UNKNOWN_STRICT = frozenset(
    {"allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties"}
)

Spot: TypeAlias = "tuple[str, str]"
"""A path in the schema, empty for the whole tool, and the value there."""


class CheckedTool(NamedTuple):
    """The parts of a definition that the rules look at."""

    name: str
    description: str | None
    input_schema: Schema


class Finding(NamedTuple):
    """A definition that some programs refuse."""

    rule: Rule
    profiles: tuple[Profile, ...]
    """Those of the rule that were asked for."""
    tool: str
    """Empty if it concerns the server as a whole."""
    where: str
    detail: str


def check_tools(
    tools: Sequence[CheckedTool], server: str = "", profiles: Collection[Profile] = DEFAULT_PROFILES
) -> list[Finding]:
    """Find what the programs refuse of these tools; `server` is the name under which clients configure the server."""
    found: list[Finding] = []
    for rule in RULES:
        refusing: tuple[Profile, ...] = tuple(profile for profile in rule.profiles if profile in profiles)
        if not refusing:
            continue
        if rule.id == "tool-count":
            found += _too_many(rule, refusing, len(tools))
            continue
        for tool in tools:
            spots = _CHECKS[rule.id](_Subject(tool, server))
            found += [Finding(rule, refusing, tool.name, where, detail) for where, detail in dict.fromkeys(spots)]
    return found


class _Subject:
    """A tool under check, with its subschemas walked once."""

    def __init__(self, tool: CheckedTool, server: str) -> None:
        self.name = tool.name
        self.server = server
        self.description = tool.description or ""
        self.schema = tool.input_schema
        self.places = list(places(tool.input_schema))

    @property
    def properties(self) -> Schema:
        """The arguments."""
        return object_of(self.schema.get("properties"))

    def schemas(self) -> Iterator[tuple[Place, Schema]]:
        """The subschemas that say anything."""
        for place in self.places:
            if schema := object_of(place.schema):
                yield place, schema


def _too_many(rule: Rule, refusing: Sequence[Profile], count: int) -> Iterator[Finding]:
    over: tuple[Profile, ...] = tuple(profile for profile in refusing if count > rules.TOOL_LIMITS[profile])
    if over:
        yield Finding(rule, over, "", "", f"{count} tools")


def _name_characters(subject: _Subject) -> Iterator[Spot]:
    if not _NAME.fullmatch(subject.name):
        yield "", ", ".join(sorted({repr(char) for char in _NAME.sub("", subject.name)}))


def _name_start(subject: _Subject) -> Iterator[Spot]:
    if not re.match(r"[A-Za-z_]", subject.name):
        yield "", repr(subject.name[:1])


def _name_length(subject: _Subject) -> Iterator[Spot]:
    if len(subject.name) > rules.NAME_LIMIT:
        yield "", f"{len(subject.name)} characters"


def _name_length_with_server(subject: _Subject) -> Iterator[Spot]:
    if (length := len(subject.server) + len(subject.name)) > rules.CURSOR_NAME_LIMIT:
        yield "", f"{length} characters"


def _description_length(subject: _Subject) -> Iterator[Spot]:
    if len(subject.description) > rules.DESCRIPTION_LIMIT:
        yield "", f"{len(subject.description)} characters"


def _root_type(subject: _Subject) -> Iterator[Spot]:
    if subject.schema.get("type") != "object":
        yield "", f"type {subject.schema.get('type', 'missing')}"


def _root_composition(subject: _Subject) -> Iterator[Spot]:
    yield from (("", word) for word in _COMPOSITION if word in subject.schema)


def _root_properties(subject: _Subject) -> Iterator[Spot]:
    if subject.schema.get("type") == "object" and "properties" not in subject.schema:
        yield "", "no properties"


def _property_names(subject: _Subject) -> Iterator[Spot]:
    # The API checks the arguments themselves only, not what is inside of them.
    yield from ((name, repr(name)) for name in subject.properties if not _PROPERTY.fullmatch(name))


def _property_names_gemini(subject: _Subject) -> Iterator[Spot]:
    yield from ((name, repr(name)) for name in subject.properties if not _PROPERTY_GEMINI.fullmatch(name))


def _array_items(subject: _Subject) -> Iterator[Spot]:
    for place, schema in subject.schemas():
        if "array" in _types(schema) and "items" not in schema:
            yield place.path, "an array without items"


def _type_list(subject: _Subject) -> Iterator[Spot]:
    for place, schema in subject.schemas():
        if isinstance(schema.get("type"), list):
            yield place.path, f"type {' or '.join(map(str, schema['type']))}"


def _boolean_schema(subject: _Subject) -> Iterator[Spot]:
    yield from ((place.path, str(place.schema).lower()) for place in subject.places if isinstance(place.schema, bool))


def _string_format(subject: _Subject) -> Iterator[Spot]:
    for place, schema in subject.schemas():
        if "string" in _types(schema) and schema.get("format", "enum") not in ("enum", "date-time"):
            yield place.path, f"format {schema['format']}"


def _enum_values(subject: _Subject) -> Iterator[Spot]:
    for place, schema in subject.schemas():
        odd = [value for value in _list(schema.get("enum")) if not isinstance(value, str)]
        if odd:
            yield place.path, f"{odd[0]!r}"


def _keywords(unknown: frozenset[str]) -> Callable[[_Subject], Iterator[Spot]]:
    def check(subject: _Subject) -> Iterator[Spot]:
        for place, schema in subject.schemas():
            if words := sorted(unknown & schema.keys()):
                yield place.path, ", ".join(words)

    return check


def _references(subject: _Subject) -> Iterator[Spot]:
    recursive = recursive_references(subject.schema)
    for place, schema in subject.schemas():
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref not in recursive:
            yield place.path, ref.rpartition("/")[2]


def _recursion(subject: _Subject) -> Iterator[Spot]:
    yield from (("", ref.rpartition("/")[2]) for ref in recursive_references(subject.schema))


def _strict_required(subject: _Subject) -> Iterator[Spot]:
    for place, schema in subject.schemas():
        required = _list(schema.get("required"))
        for name in object_of(schema.get("properties")):
            if name not in required:
                yield f"{place.path}.{name}" if place.path else name, "not required"


def _strict_additional(subject: _Subject) -> Iterator[Spot]:
    for place, schema in subject.schemas():
        if "object" in _types(schema) and schema.get("additionalProperties") is not False:
            yield place.path, "other properties are allowed"


def _strict_size(subject: _Subject) -> Iterator[Spot]:
    schemas = [schema for _, schema in subject.schemas()]
    names = [name for schema in schemas for word in ("properties", "$defs") for name in object_of(schema.get(word))]
    values = [value for schema in schemas for value in _list(schema.get("enum"))]
    measured = (
        (
            sum(len(object_of(schema.get("properties"))) for schema in schemas),
            rules.STRICT_PROPERTY_LIMIT,
            "properties",
        ),
        (max(place.levels for place in subject.places), rules.STRICT_LEVEL_LIMIT, "levels"),
        (len(values), rules.STRICT_ENUM_LIMIT, "values of enums"),
        (sum(map(len, names)) + sum(len(str(value)) for value in values), rules.STRICT_CHARACTER_LIMIT, "characters"),
    )
    yield from (("", f"{count} {what}") for count, limit, what in measured if count > limit)


def _types(schema: Schema) -> list[Any]:
    kind: object = schema.get("type")
    return _list(cast("object", kind)) if isinstance(kind, list) else [kind]


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


_CHECKS: dict[str, Callable[[_Subject], Iterator[Spot]]] = {
    "name-characters": _name_characters,
    "name-start": _name_start,
    "name-length": _name_length,
    "name-length-with-server": _name_length_with_server,
    "description-length": _description_length,
    "root-type": _root_type,
    "root-composition": _root_composition,
    "root-properties": _root_properties,
    "property-names": _property_names,
    "property-names-gemini": _property_names_gemini,
    "array-items": _array_items,
    "type-list": _type_list,
    "boolean-schema": _boolean_schema,
    "string-format": _string_format,
    "enum-values": _enum_values,
    "keywords-gemini": _keywords(_UNKNOWN_GEMINI),
    "references": _references,
    "recursion": _recursion,
    "strict-required": _strict_required,
    "strict-additional": _strict_additional,
    "strict-keywords": _keywords(_UNKNOWN_STRICT),
    "strict-size": _strict_size,
}
"""The check of each rule about one tool; `tool-count` is about all of them."""
