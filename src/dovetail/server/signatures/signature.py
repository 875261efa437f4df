"""Bindings of tools, prompts and resources, made from the signatures of their functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, cast

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.protocol.names import header_paths
from dovetail.schema.hints import pydantic_models
from dovetail.schema.hints.param import Param, header_of
from dovetail.schema.hints.reader import HintReader, HintSchema, Unsupported
from dovetail.schema.validation import Validator, compile_schema
from dovetail.server.signatures import docstring
from dovetail.server.signatures.binding import BadArguments, BadResult, Binding, Fields, ToolBinding, without_properties
from dovetail.server.signatures.defaults import IMMUTABLE, check_default, fresh_default
from dovetail.server.signatures.hints import REQUIRED, CallableSignature, Parameter, inspect_callable
from dovetail.server.signatures.results import (
    Check,
    by_schema,
    data_hint,
    json_builtins,
    nothing,
    schema_and_check,
    unchecked,
)
from dovetail.server.signatures.text_binding import Argument, TextBinding, TextParameter, make_text_parameter

__all__ = [
    "Argument", "BadArguments", "BadResult", "Binding", "Param", "TextBinding", "ToolBinding",
    "json_builtins", "prompt_binding", "template_binding", "tool_binding",
]  # fmt: skip


def tool_binding(
    fn: Callable[..., Any],
    *,
    context_type: type,
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET,
    description: str | None = None,
    lenient_arguments: bool = False,
) -> ToolBinding:
    """Make the binding of a tool; raises LocalError naming the function and the unsupported parameter.

    With `input_schema` the arguments are validated against it, and passed to the parameters with these names. A single
    parameter that is not a property of the schema gets all arguments as one dict. With `output_schema=None` results
    have no structured content, whatever the return hint is.
    """
    shape = inspect_callable(fn, context_type)
    _warn_of_untyped_context(shape)
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
    kind: type[ToolBinding] = ToolBinding
    if lenient_arguments:
        from dovetail.server.signatures.lenient import LenientToolBinding

        kind = LenientToolBinding
    return kind(
        fields=fields,
        input_schema=schema,
        output_schema=result_schema,
        check_result=check,
        is_structured=output_schema is not None,
        header_paths=headers,
        prevalidator=_compiled(shape, without_properties(schema, fields.models)) if needs_schema else None,
        whole_parameter=whole,
        context_name=shape.context_name,
        blocking_context=shape.blocking_context,
        is_async=shape.is_async,
        description=description or doc.text or None,
    )


def prompt_binding(
    fn: Callable[..., Any],
    context_type: type,
    description: str | None = None,
    arguments: Sequence[Argument] | None = None,
) -> TextBinding:
    """Make the binding of a prompt, whose arguments are strings (prompts, "Getting a Prompt").

    Declared `arguments` take the place of the parameters: they are passed to the parameters with these names or to
    `**kwargs`, or all as one dict to a single parameter with another name.
    """
    shape = inspect_callable(fn, context_type)
    if arguments is None:
        _warn_of_untyped_context(shape)
        return _text_binding(shape, description)
    names = [argument.name for argument in arguments]
    if len(shape.parameters) == 1 and shape.parameters[0].name not in names and shape.rest is REQUIRED:
        return _text_binding(shape, description, arguments, shape.parameters[0].name)
    parameters = {parameter.name: parameter for parameter in shape.parameters}
    for argument in arguments:
        parameter = parameters.get(argument.name)
        if parameter is None and shape.rest is REQUIRED:
            raise LocalError(f"{shape.name}() has no parameter for {argument.name}, one of its declared arguments")
        if parameter is not None and parameter.default is REQUIRED and not argument.required:
            raise LocalError(f"{shape.name}() needs {argument.name}, which is declared as not required")
    for name, parameter in parameters.items():
        if parameter.default is REQUIRED and name not in names:
            raise LocalError(f"{shape.name}() needs {name}, which is not one of its declared arguments")
    return _text_binding(shape, description, arguments)


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


def _text_binding(
    shape: CallableSignature,
    description: str | None,
    declared: Sequence[Argument] | None = None,
    whole: str | None = None,
) -> TextBinding:
    doc = docstring.parse(shape.doc)
    reader = HintReader("input")
    parameters = shape.parameters
    if declared is not None:
        named = {} if whole else {parameter.name: parameter for parameter in shape.parameters}
        parameters = tuple(
            Parameter(one.name, named[one.name].hint if one.name in named else str, REQUIRED if one.required else None)
            for one in declared
        )
    text_parameters: list[TextParameter] = []
    for parameter in parameters:
        reading = _read(reader, shape, parameter.name, parameter.hint)
        if declared is None and parameter.default is not REQUIRED:
            check_default(shape.name, parameter, reading, reader.definitions.bodies)
        described = doc.parameters.get(parameter.name)
        text_parameters.append(make_text_parameter(parameter, reading, reader.definitions.bodies, described))
    is_open = declared is None and shape.rest is not REQUIRED
    return TextBinding(shape, text_parameters, description or doc.text or None, is_open=is_open, whole=whole)


def _warn_of_untyped_context(shape: CallableSignature) -> None:
    if shape.untyped_context is not None:
        import logging  # which imports a lot on Python 3.14, for a mistake that few make

        name = shape.untyped_context
        logging.getLogger("dovetail").warning(
            "%s(): %s has no type hint, so that clients have to give it; write %s: Context", shape.name, name, name
        )


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
        else:
            check_default(shape.name, parameter, reading, reader.definitions.bodies)
        columns.append(_column(parameter, reading))
        if reading.model is not None:
            models[name] = reading.model
        probe = probe or not reading.plain
        needs_schema = needs_schema or reading.needs_schema
    # Properties are there even if there are none: clients and model APIs take them for granted.
    schema: dict[str, Any] = {"type": "object", "properties": properties}
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
            shown_default = default if type(default) in IMMUTABLE[:5] else json_builtins(default)
        except BadResult:
            return schema  # a default that JSON cannot represent still applies
        schema = {**schema, "default": shown_default}
    return schema


def _column(parameter: Parameter, reading: HintSchema) -> Any:
    default = parameter.default
    if default is REQUIRED:
        return parameter.name, reading.wire
    if isinstance(default, IMMUTABLE):
        return parameter.name, reading.wire, default
    # The same object, as in a Python call, unless it is mutable.
    return parameter.name, reading.wire, msgspec.field(default_factory=fresh_default(default) or (lambda: default))


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
    return schema if "properties" in schema else {**schema, "properties": {}}


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


def _outputs(
    shape: CallableSignature, given: dict[str, Any] | msgspec.UnsetType | None
) -> tuple[dict[str, Any] | None, Check]:
    if given is None:
        return None, unchecked
    try:
        if given is not msgspec.UNSET:
            return given, by_schema(given)
        hint = Any if shape.returns is REQUIRED else data_hint(shape.returns)
        if hint is Any:
            return None, unchecked
        if hint is None or hint is NoneType:
            # Clients that take null for a missing value fail on a tool whose output schema is of null.
            return None, nothing
        return schema_and_check(hint)
    except (Unsupported, LocalError) as error:
        raise LocalError(
            f"{shape.name}(): the result: {error}; else annotate it as Any, or give output_schema (None for text only)"
        ) from error
