"""Schemas that mean a form but are written in more of JSON Schema than a form may use.

Generators write an optional field as a union with null, an enumeration as a reference, a single choice as a
constant. A form has none of these, and says the same in other words.
"""

from __future__ import annotations

from typing import Any, cast

from .errors import LocalError
from .forms import FORMATS, check_form
from .problems import shown

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
