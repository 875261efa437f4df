"""Forms of elicitation: flat object schemas that a user fills in, and the content that comes back.

A form is written in the style of the newest revision and converted to the revision it is sent on (`fit_form`).
`flat_form` and `flat_field` read schemas that mean a form but use more of JSON Schema than a form may: generators
write an optional field as a union with null, an enumeration as a reference, a single choice as a constant.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from dovetail.types.errors import LocalError

from .error_text import shown
from .form_check import COUNTS, FORMATS, NUMBERS, check_form, choices
from .validation import Validator, compile_schema

_CHECKED = frozenset({"type", "enum", "items", "format", *COUNTS, *NUMBERS})
_BEYOND = frozenset({"pattern", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems"})
"""Limits that are no part of a form, but that JSON Schema knows and authors use."""


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

        A pattern of a flat form that needs more than linear time is left out: the server that asks checks it.
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
    """A peer's form: in the style of the newest revision if it can be said so, otherwise as the schema it is.

    Raises LocalError for a schema that cannot be used at all.
    """
    try:
        return CompiledForm(flat_form(schema))
    except LocalError:
        form = CompiledForm(schema, is_flat=False)
    _ = form.validator  # compiled now, so that an unusable schema is refused before a user sees it
    return form


def problems(schema: dict[str, Any], content: dict[str, Any]) -> list[str]:
    """The same as `CompiledForm.problems`, for a form that is used once."""
    return CompiledForm(schema).problems(content)


def _compile_flat(schema: dict[str, Any]) -> Validator:
    try:
        return compile_schema(_judged_form(schema, _CHECKED | _BEYOND), formats=True)
    except LocalError:
        return compile_schema(_judged_form(schema, _CHECKED), formats=True)


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
