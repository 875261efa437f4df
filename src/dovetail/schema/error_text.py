"""Validation errors as sentences that a model can act on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_MAX_PREVIEW = 60
_MAX_NAMES = 20

# Keyword -> sentence; `{got}` is the value, the other names are the facts of that keyword.
_SENTENCES = {
    "const": "must be {expected_value}, not {got}",
    "exclusiveMaximum": "must be less than {limit}, not {got}",
    "exclusiveMinimum": "must be greater than {limit}, not {got}",
    "falseSchema": "must not be given",
    "format": "must be a valid {format}, not {got}",
    "maxItems": "must have at most {limit} items",
    "maxLength": "must have at most {limit} characters",
    "maxProperties": "must have at most {limit} properties",
    "maximum": "must be at most {limit}, not {got}",
    "minItems": "must have at least {limit} items",
    "minLength": "must have at least {limit} characters",
    "minProperties": "must have at least {limit} properties",
    "minimum": "must be at least {limit}, not {got}",
    "multipleOf": "must be a multiple of {multiple_of}, not {got}",
    "pattern": "must match the pattern {pattern}, not {got}",
    "uniqueItems": "must not hold the same item twice",
}


def error_sentences(error: ValidationError) -> list[str]:
    """The sentences for one validation error; several if it concerns several properties."""
    return [with_path(error.instance_path, text) for text in _texts(error)]


def with_path(path: Iterable[int | str], text: str) -> str:
    """A sentence with the path it is about in front: `items[2].name: must be ...`."""
    place = ""
    for step in path:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else step
    return f"{place}: {text}" if place else text


def json_preview(value: object) -> str:
    """A value as JSON, shortened so that a peer cannot make an error message long."""
    import msgspec

    if isinstance(value, str) and len(value) > _MAX_PREVIEW:
        value = value[:_MAX_PREVIEW]
        return msgspec.json.encode(value).decode()[:-1] + '..."'
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _MAX_PREVIEW else text[:_MAX_PREVIEW] + "..."


def json_type(value: object) -> str:
    """The JSON type of a value, as schemas name it."""
    if isinstance(value, bool):
        return "boolean"
    names: tuple[tuple[Any, str], ...] = (
        (str, "string"), (int, "integer"), (float, "number"), (dict, "object"), ((list, tuple), "array"),
    )  # fmt: skip
    fallback = "null" if value is None else "value"
    return next((name for kind, name in names if isinstance(value, kind)), fallback)


def _texts(error: ValidationError) -> list[str]:
    keyword = error.kind.name
    facts = error.kind.as_dict()
    if keyword == "required":
        return [f"the required property {json_preview(facts['property'])} is missing"]
    if keyword in ("additionalProperties", "unevaluatedProperties"):
        return [f"unknown property {json_preview(name)}" for name in facts["unexpected"][:_MAX_NAMES]]
    if keyword == "type":
        return [_type_text(facts["types"], error.instance)]
    if keyword == "enum":
        return [f"must be one of {_options(facts['options'])}, not {json_preview(error.instance)}"]
    if keyword in ("anyOf", "oneOf") and facts.get("context"):
        return [_alternatives(error, facts["context"])]
    if keyword == "propertyNames":
        return [f"a property name {text}" for text in _texts(facts["error"])]
    sentence = _SENTENCES.get(keyword)
    if sentence is None:
        return [_cut(error.message)]
    return [_fill(sentence, facts, error.instance)]


def _fill(sentence: str, facts: dict[str, Any], instance: object) -> str:
    shown_facts = {
        name: value if name in ("format", "pattern") else json_preview(value) for name, value in facts.items()
    }
    return sentence.format(got=json_preview(instance), **shown_facts)


def _type_text(types: Sequence[str], instance: object) -> str:
    kind = json_type(instance)
    got = kind if kind in ("object", "array", "null") else f"the {kind} {json_preview(instance)}"
    expected = " or ".join(sorted(types, key=lambda name: name == "null"))
    return f"must be of type {expected}, not {got}"


def _options(options: Sequence[object]) -> str:
    listed = ", ".join(json_preview(option) for option in options[:_MAX_NAMES])
    return listed + (", ..." if len(options) > _MAX_NAMES else "")


def _alternatives(error: ValidationError, branches: Sequence[Sequence[ValidationError]]) -> str:
    """One sentence for a union: the allowed types, or the errors of the closest alternatives."""
    here = len(error.instance_path)
    wrong_type = [_type_clash(branch, here) for branch in branches]
    if all(wrong_type):
        names = [name for clash in wrong_type if clash for name in clash]
        return _type_text(list(dict.fromkeys(names)), error.instance)
    close = [branch for branch, clash in zip(branches, wrong_type, strict=True) if not clash and branch]
    sentences: list[str] = []
    for branch in close[:4]:
        inner = [with_path(list(e.instance_path)[here:], text) for e in branch[:3] for text in _texts(e)]
        sentences.append("; ".join(inner))
    if len(sentences) == 1:
        return sentences[0]
    return "fits none of the alternatives: " + " | ".join(sentences)


def _type_clash(branch: Sequence[ValidationError], depth: int) -> list[str] | None:
    for error in branch:
        if error.kind.name == "type" and len(error.instance_path) == depth:
            return list(error.kind.as_dict()["types"])
    return None


def _cut(text: str) -> str:
    return text if len(text) <= 4 * _MAX_PREVIEW else text[: 4 * _MAX_PREVIEW] + "..."


def conversion_error(error: Exception) -> str:
    """The text of a msgspec conversion error in the form of the other sentences: path first, then the reason."""
    text, _, place = str(error).partition(" - at `")
    place = place.rstrip("`").removeprefix("$").removeprefix(".")
    text = _cut(text.replace("`", ""))
    text = text[:1].lower() + text[1:]
    return f"{place}: {text}" if place else text
