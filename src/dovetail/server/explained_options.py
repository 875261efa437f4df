"""Errors for keyword arguments that a function has in other libraries, and not here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast

from dovetail.protocol.errors import LocalError

if TYPE_CHECKING:
    from types import CodeType

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Table = Literal["CONSTRUCTOR_OPTIONS", "MOUNT_OPTIONS", "ELICIT_OPTIONS", "SAMPLE_OPTIONS"]


def explain_options(noun: str, table: Table) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Make a function answer keyword arguments of other libraries with what they are called here.

    `table` is a table of `other_names`, which is imported only for an argument that the function does not name. An
    argument that is not in the table is the `TypeError` that it always is.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        code = cast("CodeType", cast(Any, function).__code__)
        own = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

        @functools.wraps(function)
        def explained(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
            if not own.issuperset(options):
                from . import other_names

                names = getattr(other_names, table)
                if foreign := names.keys() & options.keys():
                    raise LocalError(other_names.unknown_options(noun, foreign, names))
            return function(*args, **options)

        return explained

    return decorate
