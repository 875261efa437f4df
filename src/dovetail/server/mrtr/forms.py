"""Elicitation forms from Python types: the schema for the client, and conversion of the user's answer."""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import typing
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from dovetail.protocol.errors import InvalidAnswer, LocalError
from dovetail.schema.error_text import conversion_error, json_preview, with_path
from dovetail.schema.form_check import check_form
from dovetail.schema.forms import CompiledForm, flat_field
from dovetail.schema.hints.opaque_types import decode
from dovetail.schema.hints.param import Param, merge_metadata
from dovetail.schema.hints.reader import HintReader
from dovetail.schema.hints.type_support import HintSchema, Unsupported, hint_name
from dovetail.server.signatures import docstring
from dovetail.types.serialization import integers_from_floats

Email: TypeAlias = typing.Annotated[str, Param(extra={"format": "email"})]
Url: TypeAlias = typing.Annotated[str, Param(extra={"format": "uri"})]

_DEFAULT_TYPES: dict[str, Any] = {"number": float, "array": list}
"""Conversions of defaults that msgspec would write in another type: a Decimal as a string, a tuple."""

SINGLE_VALUE = "value"
"""The name of the field in a form for a single value, such as `int`."""


class Field(NamedTuple):
    """A field of a form, with the conversion of its answer."""

    schema: dict[str, Any]
    required: bool
    nullable: bool
    values: dict[str, Any]
    """The values of the choices by their strings, if they are not strings themselves."""


class Form:
    """A form in the style of the newest revision, and the type that its answer is converted to."""

    __slots__ = ("_fields", "_is_single", "_reading", "compiled", "schema")

    def __init__(self, schema: dict[str, Any], fields: dict[str, Field], reading: HintSchema | None, is_single: bool):
        self.schema = schema
        self.compiled = CompiledForm(schema)
        self._fields = fields
        self._reading = reading
        self._is_single = is_single

    def load(self, content: dict[str, Any]) -> Any:
        """Convert the user's answer; raises InvalidAnswer with every problem.

        A field that is null, as some clients send blank fields, counts as left out.
        """
        blank = {name for name, value in content.items() if value is None}
        # On older revisions the client does not see the defaults, so that they are filled in here as well.
        given = self.compiled.fill_defaults({name: content[name] for name in content if name not in blank})
        problems = self.compiled.problems(given)
        for name, field in self.schema["properties"].items():
            if name in given and field["type"] == "integer":
                given[name] = integers_from_floats(given[name])
                if isinstance(given[name], float) and not problems:
                    problems.append(f"{name}: {given[name]:g} is too large to be an exact integer")
        if problems:
            raise InvalidAnswer(f"The answer does not fit the form: {'; '.join(problems)}")
        if self._reading is None:
            return given
        for name, field in self._fields.items():
            if field.nullable and (name in blank or (field.required and name not in given)):
                given[name] = None
            elif name in given:
                given[name] = _chosen_values(field, given[name])
        return self._converted(self._reading, given[SINGLE_VALUE] if self._is_single else given)

    def _converted(self, reading: HintSchema, given: Any) -> Any:
        try:
            return msgspec.convert(given, reading.wire, dec_hook=decode)
        except msgspec.ValidationError as error:
            problems = [conversion_error(error)]
            if reading.model is not None:
                problems = [with_path(path, text) for path, text in reading.model.problems(given)] or problems
            raise InvalidAnswer(f"The answer does not fit the form: {'; '.join(problems)}") from error


def form_for(kind: Any) -> Form:
    """The form for a type with fields, for a single value such as `int`, or for a schema written by hand.

    None is a form without fields, which asks for consent only. Raises LocalError naming a field that is not allowed
    in a form.
    """
    if kind is None:
        kind = {"type": "object", "properties": {}}
    if isinstance(kind, dict):
        schema = cast("dict[str, Any]", kind)
        check_form(schema)
        return Form(schema, {}, None, is_single=False)
    try:
        hash(kind)
    except TypeError:
        return _form(kind)
    return _cached_form(kind, str(kind))


def _form(kind: Any) -> Form:
    name = hint_name(kind)
    reader = HintReader("input")
    try:
        reading = reader.read(kind)
    except Unsupported as error:
        raise LocalError(f"{name} makes no form: {error}") from None
    root = reader.definitions.rooted(reading.schema)
    is_single = root.get("type") != "object"
    if not is_single and "properties" not in root:
        raise LocalError(f"{name} makes no form: it has no fields")
    if is_single:
        schema, nullable = flat_field(root, root)
        fields = {SINGLE_VALUE: _field(schema, kind, True, nullable)}
    elif reading.model is not None:
        fields = _fields_of_model(kind, root)
    else:
        fields = _fields_of_class(kind)
    form: dict[str, Any] = {"type": "object", "properties": {key: f.schema for key, f in fields.items()}}
    required = [key for key, field in fields.items() if field.required and not field.nullable]
    if required:
        form["required"] = required
    try:
        check_form(form)
    except LocalError as error:
        raise LocalError(f"{name} makes no form: {error}") from None
    return Form(form, fields, reading, is_single)


@functools.lru_cache(maxsize=512)
def _cached_form(kind: Any, _written: str) -> Form:
    # Hints with the same options in another order are equal, but are different forms.
    return _form(kind)


def _fields_of_model(kind: Any, root: dict[str, Any]) -> dict[str, Field]:
    """The fields of a pydantic class: its schema decides, the hints only give names of options."""
    hints: dict[str, Any] = {}
    with contextlib.suppress(NameError):  # a local class, which pydantic could resolve when it was defined
        hints = typing.get_type_hints(kind, include_extras=True)
    required = root.get("required", [])
    fields: dict[str, Field] = {}
    for name, written in root["properties"].items():
        schema, nullable = _flat(kind, name, written, root)
        param = merge_metadata([m for m in getattr(hints.get(name), "__metadata__", ()) if isinstance(m, Param)])
        if param.limits():
            raise LocalError(
                f"{hint_name(kind)}: {name} is a pydantic field: give limits with pydantic.Field, not Param"
            )
        fields[name] = _field(schema | param.notes(), hints.get(name), name in required, nullable)
    return fields


def _fields_of_class(kind: Any) -> dict[str, Field]:
    """The fields of a dataclass, TypedDict, attrs class or msgspec struct."""
    import msgspec.inspect as describe

    hints = typing.get_type_hints(kind, include_extras=True)
    descriptions = docstring.parse(_doc(kind)).parameters
    fields: dict[str, Field] = {}
    for entry in cast("describe.StructType", describe.type_info(kind)).fields:
        hint = _without_qualifiers(hints[entry.name])
        reader = HintReader("input")
        reading = reader.read(hint)
        schema, nullable = _flat(kind, entry.name, reading.schema, {"$defs": reader.definitions.bodies})
        if merge_metadata(getattr(hint, "__metadata__", ())).title is None:
            schema.pop("title", None)
        if entry.name in descriptions:
            schema.setdefault("description", descriptions[entry.name])
        default = _default(entry, schema)
        if default is not None:
            schema["default"] = default
        fields[entry.encode_name] = _field(schema, hint, entry.required, nullable)
    return fields


def _flat(kind: Any, name: str, written: Any, root: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    try:
        return flat_field(written, root)
    except LocalError as error:
        raise LocalError(f"{hint_name(kind)}: {name}: {error}") from None


def _default(entry: Any, schema: dict[str, Any]) -> Any:
    """The default to show; a default factory counts for lists only, where it hardly varies."""
    default = entry.default
    if default is msgspec.NODEFAULT:
        if entry.default_factory is msgspec.NODEFAULT or schema.get("type") != "array":
            return None
        default = entry.default_factory()
    if default is None:
        return None
    try:
        return msgspec.convert(
            msgspec.to_builtins(default), _DEFAULT_TYPES.get(str(schema.get("type")), Any), strict=False
        )
    except (TypeError, ValueError):
        return None  # a default that JSON cannot represent still applies


def _without_qualifiers(hint: Any) -> Any:
    """A field's hint without Required, NotRequired and ClassVar."""
    wrappers = (typing.Required, typing.NotRequired, typing.ClassVar)
    while typing.get_origin(hint) in wrappers:
        hint = typing.get_args(hint)[0]
    return hint


def _doc(kind: Any) -> str | None:
    doc = getattr(kind, "__doc__", None)
    return inspect.cleandoc(doc).replace("Attributes:", "Args:") if doc else None


def _field(schema: dict[str, Any], hint: Any, required: bool, nullable: bool) -> Field:
    place = schema["items"] if isinstance(schema.get("items"), dict) else schema
    if "enum" not in place:
        return Field(schema, required, nullable, {})
    kind = _enumeration(hint)
    options_listed: list[Any] = place["enum"]
    names: list[str] | None = place.pop("enumNames", None)
    values: dict[str, Any] = {}
    if not all(isinstance(value, str) for value in options_listed):
        values = _values_by_choice(kind, options_listed)
    labels = _labels(kind, values) if kind is not None else None
    choices = list(values) or options_listed
    if names is None and labels is not None:
        names = [labels[values.get(choice, choice)] for choice in choices]
    options: dict[str, Any] = {"type": "string", "enum": choices}
    if names is not None and len(names) == len(choices):
        titled = [{"const": choice, "title": name} for choice, name in zip(choices, names, strict=True)]
        options = {"anyOf": titled} if place is not schema else {"type": "string", "oneOf": titled}
    rest = {key: value for key, value in place.items() if key not in ("type", "enum")}
    shaped = {**options, **rest} if place is schema else {**schema, "items": options}
    if "default" in shaped and values:
        shaped["default"] = _default_as_choice(values, shaped["default"])
    return Field(shaped, required, nullable, values)


def _values_by_choice(kind: type[enum.Enum] | None, options_listed: list[Any]) -> dict[str, Any]:
    """Options that are not strings, by strings: the names of an enumeration, or the numbers as text."""
    if kind is not None:
        return {member.name: member.value for member in kind if member.value in options_listed}
    choices = {json_preview(value).strip('"'): value for value in options_listed}
    # Booleans are a field type of their own, and 1 and "1" would be ambiguous: `check_form` refuses them.
    clear = len(choices) == len(options_listed) and not any(isinstance(value, bool) for value in options_listed)
    return choices if clear else {}


def _labels(kind: type[enum.Enum], values: dict[str, Any]) -> dict[Any, str] | None:
    """The label of each member, by value: its `title`, else its name; None if the labels add nothing."""
    labels: dict[Any, str] = {}
    new = False
    for member in kind:
        title = getattr(member, "title", None)
        own = isinstance(title, str)
        sent = member.name if values else str(member.value)
        new = new or own or _letters(member.name) != _letters(sent)
        labels[member.value] = title if own else member.name.replace("_", " ").capitalize()
    return labels if new else None


def _letters(text: str) -> str:
    return "".join(char for char in text.lower() if char.isalnum())


def _enumeration(hint: Any) -> type[enum.Enum] | None:
    """The one Enum inside a hint such as `Optional[Color]` or `list[Color]`."""
    if isinstance(hint, enum.EnumMeta):
        return cast("type[enum.Enum]", hint)
    if typing.get_origin(hint) is typing.Literal:
        return None
    kinds = [kind for arg in typing.get_args(hint) if (kind := _enumeration(arg)) is not None]
    return kinds[0] if len(kinds) == 1 else None


def _chosen_values(field: Field, answer: Any) -> Any:
    if not field.values:
        return answer
    if isinstance(answer, list):
        return [field.values[choice] for choice in cast("list[str]", answer)]
    return field.values[answer]


def _default_as_choice(values: dict[str, Any], default: Any) -> Any:
    choices = {value: choice for choice, value in values.items()}
    if isinstance(default, list):
        return [choices.get(value, value) for value in cast("list[Any]", default)]
    return choices.get(default, default)
