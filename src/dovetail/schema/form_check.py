"""Rules for forms of elicitation: which schemas a user can be asked to fill in (elicitation, "Requested Schema")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from dovetail.types.errors import LocalError

from .error_text import json_preview

FORMATS = ("date", "date-time", "email", "uri")
"""The formats allowed in a form (elicitation, "Requested Schema")."""

_COMPOSED = ("$ref", "$dynamicRef", "allOf", "anyOf", "if", "not", "oneOf", "prefixItems", "properties")
COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
NUMBERS = ("minimum", "maximum")


def check_form(schema: object) -> None:
    """Raise a LocalError, which names the field, for a schema that is no form.

    A form is an object of strings, numbers, booleans and choices, without nesting (elicitation, "Requested
    Schema"). Further keywords that a client may ignore are allowed.
    """
    if not isinstance(schema, dict):
        raise LocalError("a form is a schema, so it must be an object")
    form = cast("dict[str, Any]", schema)
    fields, required = form.get("properties"), form.get("required", [])
    if form.get("type") != "object" or not isinstance(fields, dict):
        raise LocalError('a form must have "type": "object" and its fields under "properties"')
    for name, field in cast("dict[str, Any]", fields).items():
        fault = _fault(field)
        if fault is not None:
            raise LocalError(f"the field {json_preview(name)} of the form {fault}")
    if not _texts(required) or not set(required) <= fields.keys():
        raise LocalError('"required" of a form must be a list of its fields')
    composed = [word for word in _COMPOSED if word in form and word != "properties"]
    if composed:
        raise LocalError(f"a form is a flat object: {composed[0]} is not allowed at its root")


def choices(field: dict[str, Any]) -> list[str] | None:
    """The values of a field from which the user chooses, or None if it is no choice."""
    if "items" in field:
        return choices(field["items"])
    titled = field.get("oneOf", field.get("anyOf"))
    if titled is not None:
        return [option["const"] for option in titled]
    return field.get("enum")


def _fault(field: object) -> str | None:
    """The reason why a field is not allowed in a form, to follow the name of the field in a sentence."""
    if not isinstance(field, dict):
        return "must be a schema"
    known = cast("dict[str, Any]", field)
    kind = known.get("type")
    fault_of_kind = _FAULTS_BY_TYPE.get(kind) if isinstance(kind, str) else None
    if fault_of_kind is None:
        return _wrong_kind(known, kind)
    for word in ("title", "description"):
        if not isinstance(known.get(word, ""), str):
            return f"has a {word} that is no text"
    for word in COUNTS:
        if not _is_count(known.get(word, 0)):
            return f"has a {word} that is no count"
    for word in NUMBERS:
        if not _is_number(known.get(word, 0)):
            return f"has a {word} that is no number"
    return fault_of_kind(known) or _default_fault(known)


def _wrong_kind(field: dict[str, Any], kind: object) -> str:
    if kind == "object" or "properties" in field:
        return "is an object; a form is flat, so ask for its parts one by one"
    if kind is None or isinstance(kind, list):
        return "may be of several types; a field of a form has one"
    return f"is of type {json_preview(kind)}; a form has string, number, integer, boolean and choices"


def _string_fault(field: dict[str, Any]) -> str | None:
    if "oneOf" in field:
        return _options_fault(field["oneOf"]) or _composed_fault(field, "oneOf")
    if "enum" in field:
        return _enum_fault(field) or _composed_fault(field)
    if "contentEncoding" in field:
        return "is binary, which nobody can type"
    if "format" in field and field["format"] not in FORMATS:
        return f"has the format {json_preview(field['format'])}; a form has {', '.join(FORMATS)}"
    return _composed_fault(field)


def _array_fault(field: dict[str, Any]) -> str | None:
    items: Any = field.get("items")
    if isinstance(items, dict):
        if "anyOf" in items:
            return _options_fault(items["anyOf"]) or _composed_fault(field)
        if "enum" in items:
            return _enum_fault(cast("dict[str, Any]", items)) or _composed_fault(field)
    return "is a list of anything; a form has lists of choices only, such as list[Literal[...]]"


def _enum_fault(field: dict[str, Any]) -> str | None:
    if not _texts(field["enum"]) or field.get("type") != "string":
        return "has choices that are not strings"
    names = field.get("enumNames", field["enum"])
    if not _texts(names) or len(names) != len(field["enum"]):
        return "needs one name in enumNames for each value in enum"
    return None


def _options_fault(options: Any) -> str | None:
    listed = cast("list[Any]", options) if isinstance(options, list) else []
    fine = all(isinstance(option, dict) and _labelled(cast("dict[str, Any]", option)) for option in listed)
    return None if fine and listed else 'needs options that each have a "const" and a "title"'


def _labelled(option: dict[str, Any]) -> bool:
    return _texts([option.get("const"), option.get("title")])


def _composed_fault(field: dict[str, Any], *allowed: str) -> str | None:
    used = [word for word in _COMPOSED if word in field and word not in allowed]
    return f"uses {used[0]}, which a form cannot show" if used else None


def _default_fault(field: dict[str, Any]) -> str | None:
    if "default" not in field:
        return None
    default, options = field["default"], choices(field)
    if field["type"] == "array":
        fits = _texts(default) and set(default) <= set(options or ())
    elif options is not None:
        fits = default in options
    else:
        fits = _IS_VALID_DEFAULT[field["type"]](default)
    return None if fits else f"has the default {json_preview(default)}, which does not fit it"


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_FAULTS_BY_TYPE: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "string": _string_fault,
    "number": _composed_fault,
    "integer": _composed_fault,
    "boolean": _composed_fault,
    "array": _array_fault,
}
_IS_VALID_DEFAULT: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and float(cast("float", value)).is_integer(),
    "boolean": lambda value: isinstance(value, bool),
}
