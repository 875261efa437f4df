"""Binding of arguments that are sent as strings: of prompts, and variables of resource URIs."""

from __future__ import annotations

from typing import Any

import msgspec

from dovetail.schema.error_text import conversion_error
from dovetail.schema.hints.opaque_types import decode
from dovetail.schema.hints.reader import HintSchema
from dovetail.schema.validation import Validator, compile_schema
from dovetail.server.signatures.binding import BadArguments, Binding
from dovetail.server.signatures.defaults import fresh_default
from dovetail.server.signatures.hints import REQUIRED, CallableSignature, Parameter


class Argument(msgspec.Struct, frozen=True):
    """One argument, as it is shown to clients."""

    name: str
    description: str | None
    required: bool
    title: str | None = None


class TextParameter:
    """One parameter, with the conversion from a string."""

    __slots__ = ("_reading", "_validator", "argument", "default", "name")

    def __init__(
        self, parameter: Parameter, reading: HintSchema, argument: Argument, validator: Validator | None
    ) -> None:
        self.name = parameter.name
        self.default = parameter.default
        self.argument = argument
        self._reading = reading
        self._validator = validator

    def convert(self, value: Any) -> Any:
        """Convert a string to the parameter's type; raises ValueError, or msgspec's error, for an invalid one."""
        if self._reading.wire is str:
            converted = msgspec.convert(value, str)
        elif self._reading.model is not None:
            converted = self._reading.model.load_text(value)
        else:
            converted = self._converted(value)
        if self._validator is not None:
            problems = self._validator.problems(msgspec.to_builtins(converted))
            if problems:
                raise ValueError("; ".join(problems))
        return converted

    def uses_default(self, value: Any) -> bool:
        """True if an empty string means that a field of the client's form was left empty."""
        return value == "" and self.default is not REQUIRED and self._reading.schema.get("type") != "string"

    def _converted(self, value: Any) -> Any:
        wire = self._reading.wire
        try:
            return msgspec.convert(value, wire, strict=False, dec_hook=decode)
        except msgspec.ValidationError:
            if not isinstance(value, str):
                raise
            try:
                inner = msgspec.json.decode(value)
            except (msgspec.DecodeError, ValueError, RecursionError):
                inner = None
            # Anything but a string may be given as JSON: a list, an object, null.
            if isinstance(inner, (list, dict)) or (value == "null" and inner is None):
                return msgspec.convert(inner, wire, str_keys=True, dec_hook=decode)
            raise


class TextBinding(Binding):
    """Binding of a prompt or a resource, whose arguments are strings."""

    __slots__ = ("_fresh", "_is_open", "_parameters", "_reserved", "_whole", "arguments")

    def __init__(
        self,
        shape: CallableSignature,
        parameters: list[TextParameter],
        description: str | None,
        *,
        is_open: bool,
        whole: str | None = None,
    ) -> None:
        """`is_open` accepts other arguments too, for `**kwargs`; `whole` is a parameter that gets all as one dict."""
        super().__init__(shape.context_name, shape.is_async, description, blocking_context=shape.blocking_context)
        self.arguments = tuple(parameter.argument for parameter in parameters)
        self._parameters = {parameter.name: parameter for parameter in parameters}
        self._fresh = {
            parameter.name: fresh
            for parameter in parameters
            if parameter.default is not REQUIRED and (fresh := fresh_default(parameter.default)) is not None
        }
        self._is_open = is_open
        self._whole = whole
        self._reserved = shape.reserved

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the call; raises BadArguments with every problem."""
        bound: dict[str, Any] = {}
        problems: list[str] = []
        for name, value in arguments.items():
            parameter = self._parameters.get(name)
            if parameter is None:
                if self._is_open and name not in self._reserved:
                    bound[name] = value
                else:
                    known = f"; the arguments are: {', '.join(self._parameters)}" if self._parameters else ""
                    problems.append(f"unknown argument {name!r}{known}")
            elif not parameter.uses_default(value):
                try:
                    bound[name] = parameter.convert(value)
                except ValueError as error:
                    problems.append(f"{name}: {conversion_error(error)}")
        for name, parameter in self._parameters.items():
            if parameter.default is REQUIRED and name not in arguments:
                problems.append(f"the required argument {name!r} is missing")
        if problems:
            raise BadArguments(problems)
        for name, fresh in self._fresh.items():
            if name not in bound:
                bound[name] = fresh()
        return bound if self._whole is None else {self._whole: bound}


def make_text_parameter(
    parameter: Parameter, reading: HintSchema, defs: dict[str, Any], described: str | None
) -> TextParameter:
    """Make the parameter of a parameter; raises LocalError if a limit of its hint cannot be checked."""
    schema = reading.schema
    argument = Argument(
        parameter.name,
        schema.get("description") or described,
        parameter.default is REQUIRED,
        schema.get("title") if "$ref" not in schema and "enum" not in schema else None,
    )
    validator = compile_schema({**schema, "$defs": defs}) if reading.needs_schema else None
    return TextParameter(parameter, reading, argument, validator)
