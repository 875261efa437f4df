"""Forms of elicitation: flat object schemas that a user fills in, and the content that comes back.

A form is written in the style of the newest revision and converted to the revision it is sent on (`fit_form`).
`flat_form` and `flat_field` read schemas that mean a form but use more of JSON Schema than a form may: generators
write an optional field as a union with null, an enumeration as a reference, a single choice as a constant.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from dovetail.types.errors import LocalError

from .error_text import json_preview
from .form_check import COUNTS, FORMATS, NUMBERS, check_form, choices
from .validation import Validator, compile_schema

_FORM_LIMITS = frozenset({"type", "enum", "items", "format", *COUNTS, *NUMBERS})
_EXTRA_LIMITS = frozenset({"pattern", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems"})
"""Limits that are no part of a form, but that authors use and JSON Schema can check."""


class FormRules(Protocol):
    """The attributes of a revision that decide which forms it can carry."""

    @property
    def name(self) -> str: ...
    @property
    def form(self) -> str: ...


def fit_form(schema: dict[str, Any], revision: FormRules) -> dict[str, Any]:
    """Convert a form to a revision; raises LocalError if the revision cannot ask for one of its fields."""
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
    fitted = {name: _plain_field(field) for name, field in fields.items()}
    return {**{key: value for key, value in schema.items() if key != "$schema"}, "properties": fitted}


def fill_defaults(schema: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """The content in the order of the form, with the defaults of the fields that it leaves out."""
    filled: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        if name in content:
            filled[name] = content[name]
        elif "default" in field:
            default = field["default"]
            filled[name] = list(cast("list[Any]", default)) if isinstance(default, list) else default
    return filled | content


class CompiledForm:
    """A form with its validator, which is compiled at first use and then kept."""

    __slots__ = ("_validator", "is_flat", "schema")

    def __init__(self, schema: dict[str, Any], *, is_flat: bool = True) -> None:
        """`schema` has passed `check_form`, unless `is_flat` is False: then it is any JSON Schema of an object."""
        self.schema = schema
        self.is_flat = is_flat
        self._validator: Validator | None = None

    @property
    def validator(self) -> Validator:
        """The compiled schema, the same object each time; raises LocalError for a schema that cannot be used.

        Patterns of a flat form that need more than linear time, or are too large, are left out: the server that asks
        checks them.
        """
        if self._validator is None:
            self._validator = _compile_flat(self.schema) if self.is_flat else compile_schema(self.schema)
        return self._validator

    def fill_defaults(self, content: dict[str, Any]) -> dict[str, Any]:
        """The content with the defaults of the fields it leaves out; only flat forms have defaults."""
        return fill_defaults(self.schema, content) if self.is_flat else dict(content)

    def problems(self, content: dict[str, Any]) -> list[str]:
        """The reasons why the content does not fit the form, a sentence each; empty if it fits."""
        texts = self.validator.problems(content)
        return [text.replace(" property ", " field ", 1) for text in texts] if self.is_flat else texts


def read_form(schema: dict[str, Any]) -> CompiledForm:
    """A peer's form: converted to the style of the newest revision if possible, otherwise as the schema it is.

    Raises LocalError for a schema that cannot be used at all.
    """
    try:
        form = CompiledForm(flat_form(schema))
    except LocalError:
        form = CompiledForm(schema, is_flat=False)
    _ = form.validator  # compiled now, so that an unusable schema is refused before a user sees it
    return form


def problems(schema: dict[str, Any], content: dict[str, Any]) -> list[str]:
    """The same as `CompiledForm.problems`, for a form that is used once."""
    return CompiledForm(schema).problems(content)


def _compile_flat(schema: dict[str, Any]) -> Validator:
    try:
        return compile_schema(_checked_form(schema, _FORM_LIMITS | _EXTRA_LIMITS), formats=True)
    except LocalError:
        return compile_schema(_checked_form(schema, _FORM_LIMITS), formats=True)


def _plain_field(field: dict[str, Any]) -> dict[str, Any]:
    kept = {
        key: value
        for key, value in field.items()
        if key != "oneOf" and (key != "default" or field["type"] == "boolean")
    }
    if "oneOf" in field:
        kept["enum"] = [option["const"] for option in field["oneOf"]]
        kept["enumNames"] = [option["title"] for option in field["oneOf"]]
    return kept


def _checked_form(schema: dict[str, Any], words: frozenset[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: _checked_field(field, words) for name, field in schema["properties"].items()},
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def _checked_field(field: dict[str, Any], words: frozenset[str]) -> dict[str, Any]:
    """The schema that checks a field, with its options as one list: a wrong choice then gives one sentence."""
    kept = {word: value for word, value in field.items() if word in words}
    if "items" in kept:
        return {**kept, "items": _checked_field(kept["items"], words)}
    options = choices(field)
    return kept if options is None else {**kept, "enum": options}


_DEFINITIONS = ("$defs", "definitions")
_MAX_REFERENCES = 20
_DECIMAL = ["number", "string"]
"""The types of an exact decimal in JSON; a user types a number."""

_FORM_KEYWORDS = ("$schema", "type", "title", "description", "properties", "required")


def flat_form(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert a peer's form to the style of the newest revision; raises LocalError if the result is no form.

    A field that may be null becomes an optional field.
    """
    fields: dict[str, Any] = {}
    optional: set[str] = set()
    written: Any = schema.get("properties")
    for name, field in (cast("dict[str, Any]", written) if isinstance(written, dict) else {}).items():
        fields[name], nullable = flat_field(field, schema)
        if nullable:
            optional.add(name)
    form = {key: schema[key] for key in _FORM_KEYWORDS if key in schema}
    if isinstance(written, dict):
        form["properties"] = fields
    if optional and isinstance(form.get("required"), list):
        form["required"] = [name for name in form["required"] if name not in optional]
    check_form(form)
    return form


def flat_field(field: Any, root: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Convert a field to one without references, unions with null and constants; also returns True if it may be null.

    Parts that cannot be converted are left as they are, for `check_form` to refuse.
    """
    if not isinstance(field, dict):
        raise LocalError("a field of a form must be a schema")
    flat, nullable = _resolved(cast("dict[str, Any]", field), root)
    kind: Any = flat.get("type")
    if isinstance(kind, list):
        kinds = [name for name in cast("list[Any]", kind) if name != "null"]
        nullable = nullable or len(kinds) < len(cast("list[Any]", kind))
        flat["type"] = "number" if kinds == _DECIMAL else kinds[0] if len(kinds) == 1 else kinds
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


def _resolved(field: dict[str, Any], root: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Resolve references and unions with one member besides null; keywords beside them take precedence."""
    flat, nullable = dict(field), False
    for _ in range(_MAX_REFERENCES):
        if "$ref" in flat:
            target = _definition(flat.pop("$ref"), root)
            # The title of a definition is the name of a class, not the label of this field.
            flat = {key: value for key, value in target.items() if key != "title"} | flat
            continue
        word = next((word for word in ("allOf", "anyOf", "oneOf") if isinstance(flat.get(word), list)), None)
        if word is None:
            return flat, nullable
        options: list[Any] = flat.pop(word)
        left = [option for option in options if option != {"type": "null"}]
        nullable = nullable or len(left) < len(options)
        if _is_decimal(left):
            left = left[:1]
        if left and all(isinstance(option, dict) and "const" in option for option in left):
            flat.setdefault("type", "string")
            return {**flat, "oneOf": left}, nullable
        if len(left) != 1 or not isinstance(left[0], dict):
            return {**flat, word: left}, nullable
        flat = cast("dict[str, Any]", left[0]) | flat
    raise LocalError("a field of a form refers to itself")


def _is_decimal(options: list[Any]) -> bool:
    schemas = [cast("dict[str, Any]", option) for option in options if isinstance(option, dict)]
    return len(schemas) == len(options) and [schema.get("type") for schema in schemas] == _DECIMAL


def _definition(ref: Any, root: dict[str, Any]) -> dict[str, Any]:
    for place in _DEFINITIONS:
        name = ref.removeprefix(f"#/{place}/") if isinstance(ref, str) else ""
        definitions: Any = root.get(place)
        if isinstance(definitions, dict) and isinstance(definitions.get(name), dict):  # pyright: ignore[reportUnknownMemberType]
            return cast("dict[str, dict[str, Any]]", definitions)[name]
    raise LocalError(f"the form refers to {json_preview(ref)}, which it does not define")


def _close_limits(field: dict[str, Any]) -> None:
    """Replace exclusive limits of integers by inclusive ones, which a form can express: above 0 is at least 1."""
    if field.get("type") != "integer":
        return
    for word, closed, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        limit: Any = field.get(word)
        if isinstance(limit, int) and not isinstance(limit, bool) and closed not in field:
            field[closed] = limit + step
            del field[word]
