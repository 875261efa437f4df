"""Forms: the flat object schemas that a server may ask a person to fill in, and what was filled in.

A form is written once, in the style of the newest revision, and fitted to the revision it is sent on.

Schemas that mean a form but are written in more of JSON Schema than a form may use.

Generators write an optional field as a union with null, an enumeration as a reference, a single choice as a
constant. A form has none of these, and says the same in other words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from dovetail.types.errors import LocalError

from .error_text import shown
from .validation import compile_schema

FORMATS = ("date", "date-time", "email", "uri")
"""The formats a form may name (elicitation, "Requested Schema")."""

_COMPOSED = ("$ref", "$dynamicRef", "allOf", "anyOf", "if", "not", "oneOf", "prefixItems", "properties")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
_NUMBERS = ("minimum", "maximum")
_CHECKED = frozenset({"type", "enum", "items", "format", *_COUNTS, *_NUMBERS})
_BEYOND = frozenset({"pattern", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems"})
"""Limits that are no part of a form, but that JSON Schema knows and authors use."""


def check_form(schema: object) -> None:
    """Refuse what is no form with a LocalError that names the field.

    A form is an object of strings, numbers, booleans and choices, without nesting (elicitation, "Requested
    Schema"). Further keywords that a reader may ignore are let through.
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
            raise LocalError(f"the field {shown(name)} of the form {fault}")
    if not _texts(required) or not set(required) <= fields.keys():
        raise LocalError('"required" of a form must be a list of its fields')
    composed = [word for word in _COMPOSED if word in form and word != "properties"]
    if composed:
        raise LocalError(f"a form is a flat object: {composed[0]} is not allowed at its root")


def choices(field: dict[str, Any]) -> list[str] | None:
    """The values a field lets a person choose from, or None when it is no choice."""
    if "items" in field:
        return choices(field["items"])
    titled = field.get("oneOf", field.get("anyOf"))
    if titled is not None:
        return [option["const"] for option in titled]
    return field.get("enum")


class FormRules(Protocol):
    """The part of a revision that says which forms it can carry."""

    @property
    def name(self) -> str: ...
    @property
    def form(self) -> str: ...


def fit_form(schema: dict[str, Any], revision: FormRules) -> dict[str, Any]:
    """The form as a revision writes it; raises LocalError when it cannot ask for that at all."""
    if revision.form == "absent":
        raise LocalError(f"revision {revision.name} has no forms")
    if revision.form == "rich":
        return schema
    fields: dict[str, dict[str, Any]] = schema["properties"]
    several = [name for name, field in fields.items() if field["type"] == "array"]
    if several:
        raise LocalError(
            f"revision {revision.name} has no choice of several, which the field {several[0]} of the form needs"
        )
    fitted = {name: _plain(field) for name, field in fields.items()}
    return {**{key: value for key, value in schema.items() if key != "$schema"}, "properties": fitted}


def fill_defaults(schema: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """The content in the order of the form, with the form's defaults for fields that were left out."""
    filled: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        if name in content:
            filled[name] = content[name]
        elif "default" in field:
            default = field["default"]
            filled[name] = list(cast("list[Any]", default)) if isinstance(default, list) else default
    return filled | content


def problems(schema: dict[str, Any], content: dict[str, Any]) -> list[str]:
    """What does not fit in content filled into a form, a sentence each; empty when all is well.

    A pattern that needs more than linear time is not checked: it is the asking server's to judge.
    """
    try:
        validator = compile_schema(_judged_form(schema, _CHECKED | _BEYOND), formats=True)
    except LocalError:
        validator = compile_schema(_judged_form(schema, _CHECKED), formats=True)
    return [text.replace(" property ", " field ", 1) for text in validator.problems(content)]


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    kept = {
        key: value
        for key, value in field.items()
        if key != "oneOf" and (key != "default" or field["type"] == "boolean")
    }
    if "oneOf" in field:
        kept["enum"] = [option["const"] for option in field["oneOf"]]
        kept["enumNames"] = [option["title"] for option in field["oneOf"]]
    return kept


def _judged_form(schema: dict[str, Any], words: frozenset[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: _judged(field, words) for name, field in schema["properties"].items()},
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def _judged(field: dict[str, Any], words: frozenset[str]) -> dict[str, Any]:
    """A field with its options as one list, so that a wrong choice is one sentence."""
    kept = {word: value for word, value in field.items() if word in words}
    if "items" in kept:
        return {**kept, "items": _judged(kept["items"], words)}
    options = choices(field)
    return kept if options is None else {**kept, "enum": options}


def _fault(field: object) -> str | None:
    """What makes a field unfit for a form, to follow the field's name in a sentence."""
    if not isinstance(field, dict):
        return "must be a schema"
    known = cast("dict[str, Any]", field)
    kind = known.get("type")
    judge = _KINDS.get(kind) if isinstance(kind, str) else None
    if judge is None:
        return _wrong_kind(known, kind)
    for word in ("title", "description"):
        if not isinstance(known.get(word, ""), str):
            return f"has a {word} that is no text"
    for word in _COUNTS:
        if not _is_count(known.get(word, 0)):
            return f"has a {word} that is no count"
    for word in _NUMBERS:
        if not _is_number(known.get(word, 0)):
            return f"has a {word} that is no number"
    return judge(known) or _default_fault(known)


def _wrong_kind(field: dict[str, Any], kind: object) -> str:
    if kind == "object" or "properties" in field:
        return "is an object; a form is flat, so ask for its parts one by one"
    if kind is None or isinstance(kind, list):
        return "may be of several types; a field of a form has one"
    return f"is of type {shown(kind)}; a form has string, number, integer, boolean and choices"


def _string_fault(field: dict[str, Any]) -> str | None:
    if "oneOf" in field:
        return _options_fault(field["oneOf"]) or _composed_fault(field, "oneOf")
    if "enum" in field:
        return _enum_fault(field) or _composed_fault(field)
    if "contentEncoding" in field:
        return "is binary, which nobody can type"
    if "format" in field and field["format"] not in FORMATS:
        return f"has the format {shown(field['format'])}; a form has {', '.join(FORMATS)}"
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
    found = [word for word in _COMPOSED if word in field and word not in allowed]
    return f"uses {found[0]}, which a form cannot show" if found else None


def _default_fault(field: dict[str, Any]) -> str | None:
    if "default" not in field:
        return None
    default, options = field["default"], choices(field)
    if field["type"] == "array":
        fits = _texts(default) and set(default) <= set(options or ())
    elif options is not None:
        fits = default in options
    else:
        fits = _DEFAULTS[field["type"]](default)
    return None if fits else f"has the default {shown(default)}, which does not fit it"


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_KINDS: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "string": _string_fault,
    "number": _composed_fault,
    "integer": _composed_fault,
    "boolean": _composed_fault,
    "array": _array_fault,
}
_DEFAULTS: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and float(cast("float", value)).is_integer(),
    "boolean": lambda value: isinstance(value, bool),
}


_ROOTS = ("$defs", "definitions")
_MAX_STEPS = 20
_KEPT = ("$schema", "type", "title", "description", "properties", "required")


def flat_form(schema: dict[str, Any]) -> dict[str, Any]:
    """A peer's form in the words of the newest revision; raises LocalError when it is no form even then.

    A field that may be null is one that may be left out.
    """
    fields: dict[str, Any] = {}
    optional: set[str] = set()
    written: Any = schema.get("properties")
    for name, field in (cast("dict[str, Any]", written) if isinstance(written, dict) else {}).items():
        fields[name], nullable = flat_field(field, schema)
        if nullable:
            optional.add(name)
    form = {key: schema[key] for key in _KEPT if key in schema}
    if isinstance(written, dict):
        form["properties"] = fields
    if optional and isinstance(form.get("required"), list):
        form["required"] = [name for name in form["required"] if name not in optional]
    check_form(form)
    return form


def flat_field(field: Any, root: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """A field without references, unions with null and constants, and whether null was one of its values.

    What has no such form is left as it is, for `check_form` to refuse.
    """
    if not isinstance(field, dict):
        raise LocalError("a field of a form must be a schema")
    flat, nullable = _unfolded(cast("dict[str, Any]", field), root)
    kind: Any = flat.get("type")
    if isinstance(kind, list):
        kinds = [name for name in cast("list[Any]", kind) if name != "null"]
        nullable = nullable or len(kinds) < len(cast("list[Any]", kind))
        # An exact decimal may come as a string or a number; a person types a number.
        flat["type"] = "number" if kinds == ["number", "string"] else kinds[0] if len(kinds) == 1 else kinds
    if "const" in flat:
        flat["enum"] = [flat.pop("const")]
    if isinstance(flat.get("enum"), list):
        values: list[Any] = flat["enum"]
        nullable = nullable or None in values
        flat["enum"] = [value for value in values if value is not None]
        if all(isinstance(value, str) for value in values if value is not None):
            flat["type"] = "string"
    if isinstance(flat.get("items"), dict):
        flat["items"] = _flat_items(flat["items"], root)
    if flat.get("default", ...) is None:
        del flat["default"]
    if flat.get("type") == "string" and flat.get("format") not in FORMATS:
        flat.pop("format", None)
    _close_limits(flat)
    return flat, nullable


def _flat_items(items: Any, root: dict[str, Any]) -> dict[str, Any]:
    flat, _ = flat_field(items, root)
    flat.pop("title", None)
    if "oneOf" in flat:
        return {"anyOf": flat["oneOf"]}
    return flat


def _unfolded(field: dict[str, Any], root: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Follow references and unions that have one member besides null; what stands beside them wins."""
    flat, nullable = dict(field), False
    for _ in range(_MAX_STEPS):
        if "$ref" in flat:
            target = _target(flat.pop("$ref"), root)
            # The title of a definition is the name of a class, not the label of this field.
            flat = {key: value for key, value in target.items() if key != "title"} | flat
            continue
        word = next((word for word in ("allOf", "anyOf", "oneOf") if isinstance(flat.get(word), list)), None)
        if word is None:
            return flat, nullable
        options: list[Any] = flat.pop(word)
        left = [option for option in options if option != {"type": "null"}]
        nullable = nullable or len(left) < len(options)
        if left and all(isinstance(option, dict) and "const" in option for option in left):
            flat.setdefault("type", "string")
            return {**flat, "oneOf": left}, nullable
        if len(left) != 1 or not isinstance(left[0], dict):
            return {**flat, word: left}, nullable
        flat = cast("dict[str, Any]", left[0]) | flat
    raise LocalError("a field of a form refers to itself")


def _target(ref: Any, root: dict[str, Any]) -> dict[str, Any]:
    for place in _ROOTS:
        name = ref.removeprefix(f"#/{place}/") if isinstance(ref, str) else ""
        found: Any = root.get(place)
        if isinstance(found, dict) and isinstance(found.get(name), dict):  # pyright: ignore[reportUnknownMemberType]
            return cast("dict[str, dict[str, Any]]", found)[name]
    raise LocalError(f"the form refers to {shown(ref)}, which it does not define")


def _close_limits(field: dict[str, Any]) -> None:
    """For whole numbers more than 0 is at least 1, which a form can say."""
    if field.get("type") != "integer":
        return
    for word, closed, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        limit: Any = field.get(word)
        if isinstance(limit, int) and not isinstance(limit, bool) and closed not in field:
            field[closed] = limit + step
            del field[word]
