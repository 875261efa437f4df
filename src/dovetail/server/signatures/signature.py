"""Bindings of tools, prompts and resources, made from the signatures of their functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.protocol.names import header_paths
from dovetail.schema.validation import Validator, compile_schema
from dovetail.server.signatures import docstring, pydantic_models
from dovetail.server.signatures.binding import BadArguments, BadResult, Binding, Fields, ToolBinding, without_properties
from dovetail.server.signatures.hints import REQUIRED, CallableSignature, Parameter, inspect_callable
from dovetail.server.signatures.param import Param, header_of
from dovetail.server.signatures.results import Check, by_schema, data_hint, json_builtins, schema_and_check, unchecked
from dovetail.server.signatures.schema import HintReader, HintSchema, Unsupported
from dovetail.server.signatures.text_binding import Argument, TextBinding, TextParameter, make_text_parameter

__all__ = [
    "Argument", "BadArguments", "BadResult", "Binding", "Param", "TextBinding", "ToolBinding",
    "json_builtins", "prompt_binding", "template_binding", "tool_binding",
]  # fmt: skip

_IMMUTABLE = (str, int, float, bool, type(None), bytes)


def tool_binding(
    fn: Callable[..., Any],
    *,
    context_type: type,
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    description: str | None = None,
) -> ToolBinding:
    """Make the binding of a tool; raises LocalError naming the function and the unsupported parameter.

    With `input_schema` the arguments are validated against it, and passed to the parameters with these names. A single
    parameter that is not a property of the schema gets all arguments as one dict.
    """
    shape = inspect_callable(fn, context_type)
    doc = docstring.parse(shape.doc)
    if input_schema is None:
        schema, fields, needs_schema = _inputs(shape, doc)
        whole = None
    else:
        schema, needs_schema = _object_schema(shape, input_schema), True
        whole = _whole(shape, schema)
        fields = _fields_for_schema(shape, schema, whole)
    result_schema, check = _outputs(shape, output_schema)
    try:
        headers = header_paths(schema)
    except ValueError as error:
        raise LocalError(f"{shape.name}(): {error}") from error
    return ToolBinding(
        fields=fields,
        input_schema=schema,
        output_schema=result_schema,
        check_result=check,
        header_paths=headers,
        prevalidator=_compiled(shape, without_properties(schema, fields.models)) if needs_schema else None,
        whole_parameter=whole,
        context_name=shape.context_name,
        is_async=shape.is_async,
        description=description or doc.text or None,
    )


def prompt_binding(fn: Callable[..., Any], context_type: type, description: str | None = None) -> TextBinding:
    """Make the binding of a prompt, whose arguments are strings (prompts, "Getting a Prompt")."""
    shape = inspect_callable(fn, context_type)
    return _text_binding(shape, description)


def template_binding(
    fn: Callable[..., Any], context_type: type, variables: Sequence[str] = (), description: str | None = None
) -> TextBinding:
    """Make the binding of a resource; raises LocalError unless its parameters are the variables of the URI."""
    shape = inspect_callable(fn, context_type)
    named = {parameter.name for parameter in shape.parameters}
    for parameter in shape.parameters:
        if parameter.default is REQUIRED and parameter.name not in variables:
            raise LocalError(f"{shape.name}() needs {parameter.name}, which is not a variable of the URI")
    unmatched = [name for name in variables if name not in named]
    if unmatched and shape.rest is REQUIRED:
        raise LocalError(f"{shape.name}() has no parameter for the URI's variable {unmatched[0]}")
    return _text_binding(shape, description)


def _text_binding(shape: CallableSignature, description: str | None) -> TextBinding:
    doc = docstring.parse(shape.doc)
    reader = HintReader("input")
    text_parameters: list[TextParameter] = []
    for parameter in shape.parameters:
        reading = _read(reader, shape, parameter.name, parameter.hint)
        described = doc.parameters.get(parameter.name)
        text_parameters.append(make_text_parameter(parameter, reading, reader.definitions.bodies, described))
    return TextBinding(shape, text_parameters, description or doc.text or None)


def _read(reader: HintReader, shape: CallableSignature, name: str, hint: Any) -> HintSchema:
    try:
        return reader.read(hint)
    except Unsupported as error:
        raise LocalError(f"{shape.name}(): {name}: {error}") from error


def _compiled(shape: CallableSignature, schema: dict[str, Any]) -> Validator:
    try:
        return compile_schema(schema)
    except LocalError as error:
        raise LocalError(f"{shape.name}(): {error}") from error


def _inputs(shape: CallableSignature, doc: docstring.ParsedDocstring) -> tuple[dict[str, Any], Fields, bool]:
    reader = HintReader("input")
    properties: dict[str, Any] = {}
    required: list[str] = []
    columns: list[Any] = []
    models: dict[str, pydantic_models.PydanticType] = {}
    probe = needs_schema = False
    for parameter in shape.parameters:
        name = parameter.name
        reading = _read(reader, shape, name, parameter.hint)
        properties[name] = _property(parameter, reading, doc.parameters.get(name))
        if parameter.default is REQUIRED:
            required.append(name)
        columns.append(_column(parameter, reading))
        if reading.model is not None:
            models[name] = reading.model
        probe = probe or not reading.plain
        needs_schema = needs_schema or reading.needs_schema
    schema: dict[str, Any] = {"type": "object"}
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    rest: Any = msgspec.UNSET
    if shape.rest is REQUIRED:
        schema["additionalProperties"] = False
    else:
        extra = _read(reader, shape, "**kwargs", shape.rest)
        rest = extra.wire
        schema["additionalProperties"] = extra.schema or True
        needs_schema = needs_schema or extra.needs_schema
    fields = Fields(shape.name.rpartition(".")[2], columns, models, rest, shape.reserved)
    if probe:
        _probe(shape, fields)
    return reader.definitions.rooted(schema), fields, needs_schema


def _property(parameter: Parameter, reading: HintSchema, described: str | None) -> dict[str, Any]:
    schema = reading.schema
    if described and "description" not in schema:
        schema = {**schema, "description": described}
    header = header_of(parameter.hint)
    if header is not None:
        schema = {**schema, "x-mcp-header": header}
    default = parameter.default
    if default is not REQUIRED and "default" not in schema:
        try:
            shown_default = default if type(default) in _IMMUTABLE[:5] else json_builtins(default)
        except BadResult:
            return schema  # a default that JSON cannot represent still applies
        schema = {**schema, "default": shown_default}
    return schema


def _column(parameter: Parameter, reading: HintSchema) -> Any:
    default = parameter.default
    if default is REQUIRED:
        return parameter.name, reading.wire
    if isinstance(default, _IMMUTABLE):
        return parameter.name, reading.wire, default
    # The same object, as in a Python call: msgspec would copy or refuse a mutable default.
    return parameter.name, reading.wire, msgspec.field(default_factory=lambda: default)


def _probe(shape: CallableSignature, fields: Fields) -> None:
    """Make msgspec inspect every type now, so that an unsupported hint fails at registration."""
    try:
        msgspec.convert(None, fields.build())
    except msgspec.ValidationError:
        pass
    except TypeError as error:
        raise LocalError(f"{shape.name}(): {error}") from error


def _object_schema(shape: CallableSignature, schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type") != "object":
        raise LocalError(f'{shape.name}(): input_schema must have "type": "object" at its root')
    return schema


def _whole(shape: CallableSignature, schema: dict[str, Any]) -> str | None:
    if len(shape.parameters) != 1 or shape.parameters[0].name in schema.get("properties", {}):
        return None
    return shape.parameters[0].name


def _fields_for_schema(shape: CallableSignature, schema: dict[str, Any], whole: str | None) -> Fields:
    """The parameters of a function with a schema written by hand, which they must fit."""
    reader = HintReader("input")
    properties = cast("dict[str, Any]", schema.get("properties", {}))
    if whole is None:
        unmatched = [name for name in properties if name not in {p.name for p in shape.parameters}]
        if unmatched and shape.rest is REQUIRED:
            raise LocalError(f"{shape.name}() has no parameter for {unmatched[0]}, a property of its input_schema")
    columns: list[Any] = []
    models: dict[str, pydantic_models.PydanticType] = {}
    for parameter in shape.parameters:
        if whole is None and parameter.default is REQUIRED and parameter.name not in schema.get("required", ()):
            raise LocalError(f"{shape.name}() needs {parameter.name}, which its input_schema does not require")
        reading = _read(reader, shape, parameter.name, parameter.hint)
        columns.append(_column(parameter, reading))
        if reading.model is not None and whole is None:
            models[parameter.name] = reading.model
    rest = msgspec.UNSET if shape.rest is REQUIRED else Any
    fields = Fields(shape.name.rpartition(".")[2], columns, models, rest, shape.reserved)
    _probe(shape, fields)
    return fields


def _outputs(shape: CallableSignature, given: dict[str, Any] | None) -> tuple[dict[str, Any] | None, Check]:
    try:
        if given is not None:
            return given, by_schema(given)
        hint = Any if shape.returns is REQUIRED else data_hint(shape.returns)
        if hint is Any:
            return None, unchecked
        return schema_and_check(hint)
    except (Unsupported, LocalError) as error:
        raise LocalError(
            f"{shape.name}(): the result: {error}; else annotate it as Any, or give output_schema"
        ) from error
