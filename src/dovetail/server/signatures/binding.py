"""What a callable needs, found out once; arguments bound and results checked at each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from dovetail.protocol.errors import DovetailError
from dovetail.schema.error_text import conversion_error, json_preview, with_path
from dovetail.schema.validation import MAX_PROBLEMS, TOO_LARGE, Validator, compile_schema
from dovetail.server.signatures import pydantic_models
from dovetail.server.signatures.opaque_types import decode
from dovetail.types.serialization import integers_from_floats

_convert = msgspec.convert


class BadArguments(DovetailError):
    """A call whose arguments do not fit; `problems` says everything that is wrong with them."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class BadResult(DovetailError):
    """A handler returned something else than it declares."""


class Binding:
    """What is common to every handler: where its context goes, whether it awaits, what it is for."""

    __slots__ = ("context_name", "description", "is_async")

    def __init__(self, context_name: str | None, is_async: bool, description: str | None) -> None:
        self.context_name = context_name
        self.is_async = is_async
        self.description = description

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the call; raises BadArguments listing every problem."""
        raise NotImplementedError


class Fields(msgspec.Struct, frozen=True):
    """The parameters in the form msgspec wants; the struct that takes the arguments is made from it."""

    name: str
    columns: list[Any]
    models: Mapping[str, pydantic_models.Model]
    rest: Any = msgspec.UNSET
    """The type of what `**kwargs` takes, if the callable has it."""
    reserved: frozenset[str] = frozenset()
    """Names of parameters that are not the peer's to fill, kept out of `**kwargs`."""

    def build(self) -> type[msgspec.Struct]:
        """Make the struct; arguments that no parameter takes are an error unless `**kwargs` does."""
        forbid = self.rest is msgspec.UNSET
        return msgspec.defstruct(self.name, self.columns, kw_only=True, forbid_unknown_fields=forbid)


class ToolBinding(Binding):
    """What a tool's function takes and gives, with the schemas that say so to a peer."""

    __slots__ = (
        "_check_result", "_fields", "_first", "_struct", "_validator",
        "header_paths", "headers", "input_schema", "output_schema", "whole_name",
    )  # fmt: skip

    def __init__(
        self,
        *,
        fields: Fields,
        input_schema: dict[str, Any],
        output_schema: dict[str, Any] | None,
        check_result: Callable[[Any], Any],
        header_paths: Mapping[tuple[str, ...], str],
        first: Validator | None,
        whole_name: str | None,
        context_name: str | None,
        is_async: bool,
        description: str | None,
    ) -> None:
        super().__init__(context_name, is_async, description)
        self.input_schema = input_schema
        self.output_schema = output_schema
        self.header_paths = header_paths
        self.headers: Mapping[str, str] = {path[0]: name for path, name in header_paths.items() if len(path) == 1}
        self.whole_name = whole_name
        self._fields = fields
        self._struct: type[msgspec.Struct] | None = None
        self._first = first
        self._validator = first
        self._check_result = check_result

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the call; raises BadArguments listing every problem."""
        if self._first is not None and not self._first.is_valid(arguments):
            return self._explain(arguments)
        try:
            return self._bound(arguments)
        except msgspec.ValidationError as error:
            return self._explain(arguments, error)

    def check_result(self, value: object) -> Any:
        """The value as JSON builtins if there is an output schema; raises BadResult when it does not fit."""
        return self._check_result(value)

    def _bound(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self.whole_name is not None:
            arguments = {self.whole_name: arguments}
        struct = self._struct or self._build()
        bound = asdict(_convert(arguments, struct, str_keys=True, dec_hook=decode))
        if self._fields.rest is not msgspec.UNSET:
            bound |= self._rest(arguments)
        return bound

    def _build(self) -> type[msgspec.Struct]:
        self._struct = self._fields.build()
        return self._struct

    def _rest(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What `**kwargs` gets: never the context, a bound `self` or what a partial has fixed."""
        named = (self._struct or self._build()).__struct_fields__
        left = {name: value for name, value in arguments.items() if name not in named}
        taken = [f"the argument {name} is not yours to give" for name in left if name in self._fields.reserved]
        if taken:
            raise BadArguments(taken)
        if self._fields.rest is Any:
            return left
        return _convert(left, dict[str, self._fields.rest], str_keys=True, dec_hook=decode)

    def _explain(self, arguments: dict[str, Any], doubt: Exception | None = None) -> dict[str, Any]:
        """Find every problem, or bind after all if JSON Schema takes what msgspec did not, as 5.0 for int."""
        if "properties" not in self.input_schema and self.input_schema.get("additionalProperties") is False:
            names = list(arguments)[:MAX_PROBLEMS]
            raise BadArguments([f"unknown argument {json_preview(name)}; there are no arguments" for name in names])
        if self._validator is None:
            self._validator = compile_schema(without(self.input_schema, self._fields.models))
        problems = self._validator.problems(arguments)
        if doubt is not None and problems == [TOO_LARGE]:
            problems = [conversion_error(doubt)]
        for name, model in self._fields.models.items():
            if name in arguments:
                problems += [with_path((name, *path), text) for path, text in model.problems(arguments[name])]
        if problems:
            raise BadArguments([self._with_names(problem) for problem in problems])
        theirs = self._fields.models
        try:
            return self._bound({k: v if k in theirs else integers_from_floats(v) for k, v in arguments.items()})
        except msgspec.ValidationError as error:
            raise BadArguments([conversion_error(error)]) from error
        except RecursionError as error:
            raise BadArguments(["the arguments are nested too deeply"]) from error

    def _with_names(self, problem: str) -> str:
        if not problem.startswith('unknown property "'):
            return problem
        known = ", ".join(self.input_schema["properties"])
        return f"{problem.replace('property', 'argument', 1)}; the arguments are: {known}"


def without(schema: dict[str, Any], names: Mapping[str, object]) -> dict[str, Any]:
    """A schema that takes anything under the names that pydantic judges: it may accept more than it shows."""
    if not names:
        return schema
    return {**schema, "properties": {**schema.get("properties", {}), **dict.fromkeys(names, True)}}
