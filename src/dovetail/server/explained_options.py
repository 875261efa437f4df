"""Errors for keyword arguments that a function has in other libraries and not here, or that are misspelt."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast

from dovetail.protocol.errors import LocalError

if TYPE_CHECKING:
    from types import CodeType

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Table = Literal["CONSTRUCTOR_OPTIONS", "MOUNT_OPTIONS", "ELICIT_OPTIONS", "SAMPLE_OPTIONS"]


def explain_options(noun: str, table: Table) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Make a function answer keyword arguments of other libraries, and misspelt ones, with what they are called here.

    `table` is a table of `other_names`, which is imported only for an argument that the function does not name. An
    argument that resembles nothing is the `TypeError` that it always is. A function with `**options` knows more than it
    names, and checks their spelling itself.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        code = cast("CodeType", cast(Any, function).__code__)
        own = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        checks_itself = bool(code.co_flags & inspect.CO_VARKEYWORDS)

        @functools.wraps(function)
        def explained(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
            if not own.issuperset(options):
                from . import other_names

                names = getattr(other_names, table)
                unknown = names.keys() & options.keys() if checks_itself else options.keys() - own
                if any(other_names.advice_for(name, names, own) for name in unknown):
                    raise LocalError(other_names.unknown_options(noun, unknown, names, own))
            return function(*args, **options)

        return explained

    return decorate
