"""Bindings of handlers: they bind the arguments and check the result of each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from dovetail.protocol.errors import DovetailError
from dovetail.schema.error_text import conversion_error, json_preview, with_path
from dovetail.schema.hints import pydantic_models
from dovetail.schema.hints.opaque_types import decode
from dovetail.schema.validation import MAX_PROBLEMS, TOO_LARGE, Validator, compile_schema
from dovetail.types.serialization import integers_from_floats

_convert = msgspec.convert


class BadArguments(DovetailError):
    """A call with invalid arguments; `problems` lists everything that is wrong with them."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class BadResult(DovetailError):
    """A handler returned something else than it declares."""


class Binding:
    """Base of bindings: name of the context parameter, sync or async, description."""

    __slots__ = ("blocking_context", "context_name", "description", "is_async")

    def __init__(
        self, context_name: str | None, is_async: bool, description: str | None, *, blocking_context: bool = False
    ) -> None:
        self.context_name = context_name
        self.blocking_context = blocking_context
        self.is_async = is_async
        self.description = description

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the call; raises BadArguments with every problem."""
        raise NotImplementedError


class Fields(msgspec.Struct, frozen=True):
    """The parameters as fields of a msgspec struct, which converts the arguments."""

    name: str
    columns: list[Any]
    models: Mapping[str, pydantic_models.PydanticType]
    rest: Any = msgspec.UNSET
    """The type of `**kwargs`, if the callable has it."""
    reserved: frozenset[str] = frozenset()
    """Names of parameters that a peer must not set, kept out of `**kwargs`."""

    def build(self) -> type[msgspec.Struct]:
        """Create the struct; arguments without a parameter are an error, unless there is `**kwargs`."""
        forbid = self.rest is msgspec.UNSET
        return msgspec.defstruct(self.name, self.columns, kw_only=True, forbid_unknown_fields=forbid)


class ToolBinding(Binding):
    """Binding of a tool: parameters, result, and the schemas that are shown to clients."""

    __slots__ = (
        "_fields", "_prevalidator", "_simple_struct", "_struct", "_validator", "check_result",
        "header_paths", "headers", "input_schema", "is_structured", "output_schema", "whole_parameter",
    )  # fmt: skip

    def __init__(
        self,
        *,
        fields: Fields,
        input_schema: dict[str, Any],
        output_schema: dict[str, Any] | None,
        check_result: Callable[[Any], Any],
        is_structured: bool,
        header_paths: Mapping[tuple[str, ...], str],
        prevalidator: Validator | None,
        whole_parameter: str | None,
        context_name: str | None,
        is_async: bool,
        description: str | None,
        blocking_context: bool = False,
    ) -> None:
        super().__init__(context_name, is_async, description, blocking_context=blocking_context)
        self.input_schema = input_schema
        self.output_schema = output_schema
        self.is_structured = is_structured
        """False if results are content only, never structured content."""
        self.header_paths = header_paths
        self.headers: Mapping[str, str] = {path[0]: name for path, name in header_paths.items() if len(path) == 1}
        self.whole_parameter = whole_parameter
        self._fields = fields
        self._struct: type[msgspec.Struct] | None = None
        self._simple_struct: type[msgspec.Struct] | None = None
        """The struct where arguments are the parameters and nothing else, once it is built."""
        self._prevalidator = prevalidator
        self._validator = prevalidator
        self.check_result = check_result
        """Returns a value as JSON builtins; raises BadResult if it does not match the output schema."""

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the call; raises BadArguments with every problem."""
        if self._prevalidator is not None and not self._prevalidator.is_valid(arguments):
            return self._explain(arguments)
        try:
            if self._simple_struct is not None:
                return asdict(_convert(arguments, self._simple_struct, str_keys=True, dec_hook=decode))
            return self._bound(arguments)
        except msgspec.ValidationError as error:
            return self._explain(arguments, error)

    def _bound(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self.whole_parameter is not None:
            arguments = {self.whole_parameter: arguments}
        struct = self._struct or self._build()
        bound = asdict(_convert(arguments, struct, str_keys=True, dec_hook=decode))
        if self._fields.rest is not msgspec.UNSET:
            bound |= self._rest(arguments)
        return bound

    def _build(self) -> type[msgspec.Struct]:
        self._struct = self._fields.build()
        if self.whole_parameter is None and self._fields.rest is msgspec.UNSET:
            self._simple_struct = self._struct
        return self._struct

    def _rest(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The content of `**kwargs`: never the context, a bound `self`, or arguments fixed by a partial."""
        named = (self._struct or self._build()).__struct_fields__
        left = {name: value for name, value in arguments.items() if name not in named}
        problems = [
            f"the argument {name} is reserved and cannot be set" for name in left if name in self._fields.reserved
        ]
        if problems:
            raise BadArguments(problems)
        if self._fields.rest is Any:
            return left
        return _convert(left, dict[str, self._fields.rest], str_keys=True, dec_hook=decode)

    def _explain(self, arguments: dict[str, Any], conversion_problem: Exception | None = None) -> dict[str, Any]:
        """Raise BadArguments with every problem, or bind what only msgspec refused, such as 5.0 for int."""
        if not self.input_schema["properties"] and self.input_schema.get("additionalProperties") is False:
            names = list(arguments)[:MAX_PROBLEMS]
            raise BadArguments([f"unknown argument {json_preview(name)}; there are no arguments" for name in names])
        if self._validator is None:
            self._validator = compile_schema(without_properties(self.input_schema, self._fields.models))
        problems = self._validator.problems(arguments)
        if conversion_problem is not None and problems == [TOO_LARGE]:
            problems = [conversion_error(conversion_problem)]
        for name, model in self._fields.models.items():
            if name in arguments:
                problems += [with_path((name, *path), text) for path, text in model.problems(arguments[name])]
        if problems:
            raise BadArguments([self._with_names(problem) for problem in problems])
        models = self._fields.models
        try:
            return self._bound({k: v if k in models else integers_from_floats(v) for k, v in arguments.items()})
        except msgspec.ValidationError as error:
            raise BadArguments([conversion_error(error)]) from error
        except RecursionError as error:
            raise BadArguments(["the arguments are nested too deeply"]) from error

    def _with_names(self, problem: str) -> str:
        if not problem.startswith('unknown property "'):
            return problem
        known = ", ".join(self.input_schema["properties"])
        return f"{problem.replace('property', 'argument', 1)}; the arguments are: {known}"


def without_properties(schema: dict[str, Any], names: Mapping[str, object]) -> dict[str, Any]:
    """A schema that accepts anything under these names, which pydantic validates: it may accept more."""
    if not names:
        return schema
    return {**schema, "properties": {**schema.get("properties", {}), **dict.fromkeys(names, True)}}
