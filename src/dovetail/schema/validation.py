"""JSON Schema validation: compiled once, no network access, linear-time patterns, errors that a model can act on."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NoReturn

from dovetail.schema.cost import count_values, schema_cost
from dovetail.schema.error_text import error_sentences
from dovetail.schema.pattern_limits import compiled_size_limit
from dovetail.types.errors import LocalError

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator, Draft202012Validator

MAX_PROBLEMS = 20
MAX_EXPLAINED = 50_000
"""Values times subschemas up to which errors are listed: describing one costs a thousand times as much as a check."""

TOO_LARGE = "the value does not fit the schema; it is too large to say where"

_DIALECTS = {
    "json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "json-schema.org/draft-07/schema": "Draft7Validator",
}


class Validator:
    """A compiled schema. It has no state, and can be shared between threads."""

    def __init__(self, inner: Draft202012Validator | Draft7Validator, cost: int) -> None:
        self._inner = inner
        self._explained = MAX_EXPLAINED // cost

    def is_valid(self, value: object) -> bool:
        """True if a value of JSON builtins is valid."""
        return self._inner.is_valid(value)

    def problems(self, value: object) -> list[str]:
        """The validation errors of a value, one sentence each, at most `MAX_PROBLEMS`; empty if it is valid."""
        if self._inner.is_valid(value):
            return []
        # The engine collects all errors before it returns the first: not for a million of them.
        if count_values(value, self._explained) > self._explained:
            return [TOO_LARGE]
        errors = list(itertools.islice(self._inner.iter_errors(value), MAX_PROBLEMS + 1))
        sentences = [text for error in errors[:MAX_PROBLEMS] for text in error_sentences(error)]
        if len(errors) > MAX_PROBLEMS:
            sentences.append("there are more problems than these")
        return list(dict.fromkeys(sentences))


def compile_schema(schema: dict[str, Any], *, formats: bool = False) -> Validator:
    """Compile a schema of 2020-12 (the default) or draft-07; raises LocalError if it is not valid or too costly.

    `format` is an annotation unless `formats` makes it an assertion (2020-12 "Vocabularies for Semantic Content").
    References stay inside the document and are never fetched (basic, "JSON Schema Usage"). Patterns run on an
    engine without backtracking, so that lookaround and back-references are refused here.

    A schema of a peer is compiled in a thread: the largest that is allowed takes some 100 ms.
    """
    kind = dialect(schema)
    cost = schema_cost(schema)
    size_limit = compiled_size_limit(schema)
    import jsonschema_rs

    validator = getattr(jsonschema_rs, _DIALECTS[kind])
    try:
        patterns = jsonschema_rs.RegexOptions(size_limit=size_limit, dfa_size_limit=size_limit)
        inner = validator(schema, retriever=_refuse_reference, pattern_options=patterns, validate_formats=formats)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise LocalError(f"the schema cannot be used: {_reason(error, size_limit)}") from error
    return Validator(inner, cost)


def dialect(schema: dict[str, Any]) -> str:
    """The dialect a schema is written in; raises LocalError naming one that is not supported."""
    name = schema.get("$schema")
    if name is None:
        return "json-schema.org/draft/2020-12/schema"
    if isinstance(name, str):
        bare = name.removeprefix("https://").removeprefix("http://").removesuffix("#")
        if bare in _DIALECTS and bare != name:
            return bare
    raise LocalError(f"the schema's dialect {name!r} is not supported; use 2020-12 or draft-07")


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"references outside the document are not followed: {uri}")


def _reason(error: Exception, size_limit: int) -> str:
    text = str(getattr(error, "message", "") or error).partition("\n")[0]
    path = "/".join(str(step) for step in getattr(error, "instance_path", ()))
    if text.endswith('is not a "regex"'):
        text += " without lookaround and back-references, which could take exponential time, "
        text += f"that compiles to at most {size_limit} bytes"
    return f"{text} (at {path})" if path else text
