"""Forms from types: what a person is asked to fill in, and the value that comes out of it."""

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
from dovetail.server.signatures import docstring
from dovetail.server.signatures.opaque_types import decode
from dovetail.server.signatures.param import Param, merged
from dovetail.server.signatures.schema import Reader
from dovetail.server.signatures.type_support import Reading, Unsupported, name_of
from dovetail.types.serialization import integers_from_floats

Email: TypeAlias = typing.Annotated[str, Param(extra={"format": "email"})]
Url: TypeAlias = typing.Annotated[str, Param(extra={"format": "uri"})]

_SHOWN_AS: dict[str, Any] = {"number": float, "array": list}
"""What a default becomes where msgspec would write it differently: a Decimal as text, a tuple as one."""

LONE = "value"
"""The name of the field when a form asks for a single value, such as `int`."""


class Field(NamedTuple):
    """A field of a form and how its answer becomes a value."""

    schema: dict[str, Any]
    required: bool
    nullable: bool
    values: dict[str, Any]
    """What the choices stand for, where that is not the string that is chosen."""


class Form:
    """A form in the style of the newest revision, and the type its answer is turned into."""

    __slots__ = ("_fields", "_lone", "_reading", "compiled", "schema")

    def __init__(self, schema: dict[str, Any], fields: dict[str, Field], reading: Reading | None, lone: bool):
        self.schema = schema
        self.compiled = CompiledForm(schema)
        self._fields = fields
        self._reading = reading
        self._lone = lone

    def load(self, content: dict[str, Any]) -> Any:
        """The value that was filled in; raises InvalidAnswer listing every problem.

        A field left blank with null, as some clients do, counts as left out.
        """
        blank = {name for name, value in content.items() if value is None}
        # An older client has not seen the defaults, so that they are filled in here as well.
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
                given[name] = _meant(field, given[name])
        return self._converted(self._reading, given[LONE] if self._lone else given)

    def _converted(self, reading: Reading, given: Any) -> Any:
        try:
            return msgspec.convert(given, reading.wire, dec_hook=decode)
        except msgspec.ValidationError as error:
            found = [conversion_error(error)]
            if reading.model is not None:
                found = [with_path(path, text) for path, text in reading.model.problems(given)] or found
            raise InvalidAnswer(f"The answer does not fit the form: {'; '.join(found)}") from error


def form_for(kind: Any) -> Form:
    """The form for a type with fields, for a single value such as `int`, or for a schema written by hand.

    None is a form without fields, which asks for consent only. Raises LocalError naming a field that a form
    cannot have.
    """
    if kind is None:
        kind = {"type": "object", "properties": {}}
    if isinstance(kind, dict):
        schema = cast("dict[str, Any]", kind)
        check_form(schema)
        return Form(schema, {}, None, lone=False)
    try:
        hash(kind)
    except TypeError:
        return _form(kind)
    return _remembered(kind, str(kind))


def _form(kind: Any) -> Form:
    name = name_of(kind)
    reader = Reader("input")
    try:
        reading = reader.read(kind)
    except Unsupported as error:
        raise LocalError(f"{name} makes no form: {error}") from error
    root = reader.definitions.rooted(reading.schema)
    lone = root.get("type") != "object"
    if not lone and "properties" not in root:
        raise LocalError(f"{name} makes no form: it does not say which fields it has")
    if lone:
        schema, nullable = flat_field(root, root)
        fields = {LONE: _field(schema, kind, True, nullable)}
    elif reading.model is not None:
        fields = _of_model(kind, root)
    else:
        fields = _of_class(kind)
    form: dict[str, Any] = {"type": "object", "properties": {key: f.schema for key, f in fields.items()}}
    required = [key for key, field in fields.items() if field.required and not field.nullable]
    if required:
        form["required"] = required
    try:
        check_form(form)
    except LocalError as error:
        raise LocalError(f"{name} makes no form: {error}") from error
    return Form(form, fields, reading, lone)


@functools.lru_cache(maxsize=512)
def _remembered(kind: Any, _written: str) -> Form:
    # Hints that list the same options in another order are equal, but not the same form.
    return _form(kind)


def _of_model(kind: Any, root: dict[str, Any]) -> dict[str, Field]:
    """The fields of a class that pydantic reads: its schema is the truth, the hints only name options."""
    hints: dict[str, Any] = {}
    with contextlib.suppress(NameError):  # a local class that pydantic could resolve when it was made
        hints = typing.get_type_hints(kind, include_extras=True)
    required = root.get("required", [])
    fields: dict[str, Field] = {}
    for name, written in root["properties"].items():
        schema, nullable = _flat(kind, name, written, root)
        said = merged([m for m in getattr(hints.get(name), "__metadata__", ()) if isinstance(m, Param)])
        if said.limits():
            raise LocalError(f"{name_of(kind)}: {name} is pydantic's: give limits with pydantic.Field, not Param")
        fields[name] = _field(schema | said.notes(), hints.get(name), name in required, nullable)
    return fields


def _of_class(kind: Any) -> dict[str, Field]:
    """The fields of a dataclass, TypedDict, attrs class or msgspec struct."""
    import msgspec.inspect as describe

    hints = typing.get_type_hints(kind, include_extras=True)
    told = docstring.parse(_doc(kind)).parameters
    fields: dict[str, Field] = {}
    for entry in cast("describe.StructType", describe.type_info(kind)).fields:
        hint = _unwrapped(hints[entry.name])
        reader = Reader("input")
        reading = reader.read(hint)
        schema, nullable = _flat(kind, entry.name, reading.schema, {"$defs": reader.definitions.bodies})
        if merged(getattr(hint, "__metadata__", ())).title is None:
            schema.pop("title", None)
        if entry.name in told:
            schema.setdefault("description", told[entry.name])
        default = _default(entry, schema)
        if default is not None:
            schema["default"] = default
        fields[entry.encode_name] = _field(schema, hint, entry.required, nullable)
    return fields


def _flat(kind: Any, name: str, written: Any, root: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    try:
        return flat_field(written, root)
    except LocalError as error:
        raise LocalError(f"{name_of(kind)}: {name}: {error}") from error


def _default(entry: Any, schema: dict[str, Any]) -> Any:
    """The default to show; one that is made anew each time is shown for lists only, where it cannot vary much."""
    default = entry.default
    if default is msgspec.NODEFAULT:
        if entry.default_factory is msgspec.NODEFAULT or schema.get("type") != "array":
            return None
        default = entry.default_factory()
    if default is None:
        return None
    try:
        return msgspec.convert(msgspec.to_builtins(default), _SHOWN_AS.get(str(schema.get("type")), Any), strict=False)
    except (TypeError, ValueError):
        return None  # what JSON cannot show is still a default


def _unwrapped(hint: Any) -> Any:
    """A field's hint without what only says whether it must be there."""
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
    listed: list[Any] = place["enum"]
    names: list[str] | None = place.pop("enumNames", None)
    values: dict[str, Any] = {}
    if not all(isinstance(value, str) for value in listed):
        values = _named(kind, listed)
    labels = _labels(kind, values) if kind is not None else None
    words = list(values) or listed
    if names is None and labels is not None:
        names = [labels[values.get(word, word)] for word in words]
    options: dict[str, Any] = {"type": "string", "enum": words}
    if names is not None and len(names) == len(words):
        titled = [{"const": word, "title": name} for word, name in zip(words, names, strict=True)]
        options = {"anyOf": titled} if place is not schema else {"type": "string", "oneOf": titled}
    rest = {key: value for key, value in place.items() if key not in ("type", "enum")}
    shaped = {**options, **rest} if place is schema else {**schema, "items": options}
    if "default" in shaped and values:
        shaped["default"] = _said(values, shaped["default"])
    return Field(shaped, required, nullable, values)


def _named(kind: type[enum.Enum] | None, listed: list[Any]) -> dict[str, Any]:
    """Options that are no strings, by strings: the names of an enumeration, or the numbers written out."""
    if kind is not None:
        return {member.name: member.value for member in kind if member.value in listed}
    words = {json_preview(value).strip('"'): value for value in listed}
    # Yes and no are a boolean field, and 1 beside "1" could not be told apart: `check_form` refuses them.
    clear = len(words) == len(listed) and not any(isinstance(value, bool) for value in listed)
    return words if clear else {}


def _labels(kind: type[enum.Enum], values: dict[str, Any]) -> dict[Any, str] | None:
    """How each member is shown, by value: its `title`, else its name; None when that tells nothing new."""
    labels: dict[Any, str] = {}
    new = False
    for member in kind:
        title = getattr(member, "title", None)
        own = isinstance(title, str)
        sent = member.name if values else str(member.value)
        new = new or own or _bare(member.name) != _bare(sent)
        labels[member.value] = title if own else member.name.replace("_", " ").capitalize()
    return labels if new else None


def _bare(text: str) -> str:
    return "".join(char for char in text.lower() if char.isalnum())


def _enumeration(hint: Any) -> type[enum.Enum] | None:
    """The one Enum inside a hint such as `Optional[Color]` or `list[Color]`."""
    if isinstance(hint, enum.EnumMeta):
        return cast("type[enum.Enum]", hint)
    if typing.get_origin(hint) is typing.Literal:
        return None
    found = [kind for arg in typing.get_args(hint) if (kind := _enumeration(arg)) is not None]
    return found[0] if len(found) == 1 else None


def _meant(field: Field, answer: Any) -> Any:
    if not field.values:
        return answer
    if isinstance(answer, list):
        return [field.values[word] for word in cast("list[str]", answer)]
    return field.values[answer]


def _said(values: dict[str, Any], default: Any) -> Any:
    words = {value: word for word, value in values.items()}
    if isinstance(default, list):
        return [words.get(value, value) for value in cast("list[Any]", default)]
    return words.get(default, default)
