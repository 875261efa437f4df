"""Arguments that travel as strings: of prompts, and of the variables in a resource's URI."""

from __future__ import annotations

from typing import Any

import msgspec

from dovetail.schema.error_text import conversion_error
from dovetail.schema.validation import Validator, compile_schema
from dovetail.server.signatures.binding import BadArguments, Binding
from dovetail.server.signatures.hints import REQUIRED, Parameter, Shape
from dovetail.server.signatures.opaque_types import decode
from dovetail.server.signatures.schema import Reading


class Argument(msgspec.Struct, frozen=True):
    """One argument as a peer sees it."""

    name: str
    description: str | None
    required: bool
    title: str | None = None


class Slot:
    """One parameter and the way from a string to it."""

    __slots__ = ("_reading", "_validator", "argument", "default", "name")

    def __init__(self, parameter: Parameter, reading: Reading, argument: Argument, validator: Validator | None) -> None:
        self.name = parameter.name
        self.default = parameter.default
        self.argument = argument
        self._reading = reading
        self._validator = validator

    def fill(self, value: Any) -> Any:
        """Make the parameter's value; raises ValueError or msgspec's error for a string that does not fit."""
        if self._reading.wire is str:
            made = msgspec.convert(value, str)
        elif self._reading.model is not None:
            made = self._reading.model.load_text(value)
        else:
            made = self._converted(value)
        if self._validator is not None:
            problems = self._validator.problems(msgspec.to_builtins(made))
            if problems:
                raise ValueError("; ".join(problems))
        return made

    def leaves_default(self, value: Any) -> bool:
        """Whether an empty string means that a form's field was left empty."""
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
            # Anything but a string may be written as JSON: a list, an object, null.
            if isinstance(inner, (list, dict)) or (value == "null" and inner is None):
                return msgspec.convert(inner, wire, str_keys=True, dec_hook=decode)
            raise


class TextBinding(Binding):
    """What a prompt's or a resource's function takes, all of it given as strings."""

    __slots__ = ("_reserved", "_rest", "_slots", "arguments")

    def __init__(self, shape: Shape, slots: list[Slot], description: str | None) -> None:
        super().__init__(shape.context_name, shape.is_async, description)
        self.arguments = tuple(slot.argument for slot in slots)
        self._slots = {slot.name: slot for slot in slots}
        self._rest = shape.rest is not REQUIRED
        self._reserved = shape.reserved

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the call; raises BadArguments listing every problem."""
        bound: dict[str, Any] = {}
        problems: list[str] = []
        for name, value in arguments.items():
            slot = self._slots.get(name)
            if slot is None:
                if self._rest and name not in self._reserved:
                    bound[name] = value
                else:
                    known = f"; the arguments are: {', '.join(self._slots)}" if self._slots else ""
                    problems.append(f"unknown argument {name!r}{known}")
            elif not slot.leaves_default(value):
                try:
                    bound[name] = slot.fill(value)
                except ValueError as error:
                    problems.append(f"{name}: {conversion_error(error)}")
        for name, slot in self._slots.items():
            if slot.default is REQUIRED and name not in arguments:
                problems.append(f"the required argument {name!r} is missing")
        if problems:
            raise BadArguments(problems)
        return bound


def make_slot(parameter: Parameter, reading: Reading, defs: dict[str, Any], described: str | None) -> Slot:
    """Prepare a parameter; raises LocalError if a limit of its hint cannot be checked."""
    schema = reading.schema
    argument = Argument(
        parameter.name,
        schema.get("description") or described,
        parameter.default is REQUIRED,
        schema.get("title") if "$ref" not in schema and "enum" not in schema else None,
    )
    validator = compile_schema({**schema, "$defs": defs}) if reading.needs_schema else None
    return Slot(parameter, reading, argument, validator)
