"""Inspection of callables: parameters with resolved type hints, return hint, sync or async."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, Union

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.schema.hints import pydantic_models
from dovetail.schema.hints.param import Param

REQUIRED: Any = inspect.Parameter.empty
"""The default of a parameter without one."""

_CONTEXT_NAMES = ("ctx", "context")

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class BlockingContext:
    """Marks the context type whose methods block, for handlers that are plain functions."""

    __slots__ = ()


class Parameter(msgspec.Struct, frozen=True):
    """One parameter that the caller sets."""

    name: str
    hint: Any
    default: Any


class CallableSignature(msgspec.Struct, frozen=True):
    """The signature of a callable, with resolved hints."""

    name: str
    parameters: tuple[Parameter, ...]
    rest: Any
    """The hint of `**kwargs`, or REQUIRED if the callable has none."""
    returns: Any
    """The hint of the result, or REQUIRED if there is none."""
    context_name: str | None
    blocking_context: bool
    """The context that the callable declares is a `SyncContext`."""
    is_async: bool
    doc: str | None
    reserved: frozenset[str]
    """Names of parameters that a peer must not set."""
    untyped_context: str | None = None
    """A parameter without a hint whose name says that it is meant for the context."""


def inspect_callable(fn: Callable[..., Any], context_type: type) -> CallableSignature:
    """Inspect a callable; raises LocalError for a parameter that cannot be passed by name."""
    core, fixed = _core(fn)
    name = getattr(core, "__qualname__", None) or type(fn).__qualname__
    if inspect.isgeneratorfunction(core) or inspect.isasyncgenfunction(core):
        raise LocalError(f"{name}() is a generator; return a list instead")
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise LocalError(f"{name} has no signature that can be read: {error}") from error
    hints = _Hints(name, core, context_type)
    parameters: list[Parameter] = []
    context_name: str | None = None
    blocking = False
    untyped: str | None = None
    rest: Any = REQUIRED
    for parameter in signature.parameters.values():
        # Arguments fixed by a partial belong to the author, and may be secret: no peer sees or sets them.
        if parameter.name in fixed:
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            annotated = parameter.annotation is not REQUIRED
            rest = hints.resolve(parameter.name, parameter.annotation) if annotated else Any
            continue
        _refuse_unnamed(name, parameter)
        hint = hints.resolve(parameter.name, parameter.annotation)
        if (context := _context_in(hint, context_type)) is not None:
            if context_name is not None:
                raise LocalError(f"{name}() has two context parameters: {context_name} and {parameter.name}")
            context_name, blocking = parameter.name, issubclass(context, BlockingContext)
            continue
        if hint is REQUIRED and parameter.default is REQUIRED and parameter.name in _CONTEXT_NAMES:
            untyped = parameter.name
        parameters.append(_parameter(name, parameter.name, hint, parameter.default))
    is_async = inspect.iscoroutinefunction(core)
    if is_async and blocking:
        raise LocalError(
            f"{name}() is async, and SyncContext would block the event loop: declare Context, and await it"
        )
    return CallableSignature(
        name, tuple(parameters), rest, hints.resolve("return", signature.return_annotation), context_name, blocking,
        is_async, inspect.getdoc(core) or _class_doc(fn),
        frozenset() if rest is REQUIRED else _own_names(core).difference(p.name for p in parameters),
        untyped if context_name is None else None,
    )  # fmt: skip


def _class_doc(fn: Any) -> str | None:
    """The docstring of the class of a callable object, for a `__call__` without one."""
    return None if inspect.isroutine(fn) or isinstance(fn, functools.partial) else inspect.getdoc(fn.__class__)


def _own_names(core: Any) -> frozenset[str]:
    code = getattr(inspect.unwrap(core), "__code__", None)
    return frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) if code else frozenset()


def _core(fn: Callable[..., Any]) -> tuple[Any, frozenset[str]]:
    """The function inside partials, methods and callable objects, and the names that partials fix."""
    fixed: set[str] = set()
    core: Any = fn
    while isinstance(core, functools.partial):
        fixed.update(core.keywords)
        core = core.func
    if not inspect.isroutine(core) and not isinstance(core, type):
        core = type(core).__call__
    return core, frozenset(fixed)


def _refuse_unnamed(name: str, parameter: inspect.Parameter) -> None:
    what = parameter.name
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        raise LocalError(f"{name}() takes *{what}; arguments have names, so use a list parameter or **kwargs")
    if parameter.kind not in _NAMED:
        raise LocalError(f"{name}() takes {what} by position only; remove the / so that it can be named")
    if what == "self" and parameter.annotation is REQUIRED and "." in name:
        raise LocalError(f"{name}() is a method without its object; register the bound method of an instance")
    if what.startswith("__"):
        raise LocalError(f"{name}(): rename {what}; an argument may not start with two underscores")


def _parameter(owner: str, name: str, hint: Any, default: Any) -> Parameter:
    if isinstance(default, Param):
        raise LocalError(f"{owner}(): the default of {name} is a Param; write {name}: Annotated[<type>, Param(...)]")
    hint = Any if hint is REQUIRED else hint
    declared = pydantic_models.field_default(default)
    if declared is not None:
        field, default = declared
        hint = typing.Annotated[hint, field]
        default = REQUIRED if default is ... else default
    if default is None and not _allows_none(hint):
        hint = Union[hint, None]  # noqa: UP007 - `x: int = None` is understood as optional
    return Parameter(name, hint, default)


def _allows_none(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _allows_none(typing.get_args(hint)[0])
    if origin is Union or origin is types.UnionType or origin is typing.Literal:
        return any(arg is None or _allows_none(arg) for arg in typing.get_args(hint))
    return hint in (None, types.NoneType, Any, object)


def _context_in(hint: Any, context_type: type) -> type | None:
    """The context class that a hint names, if it names one."""
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return hint if issubclass(hint, (context_type, _UnresolvedContext)) else None
    origin = typing.get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, context_type):
        return origin
    if origin is Union or origin is types.UnionType or origin is typing.Annotated:
        return next((found for arg in typing.get_args(hint) if (found := _context_in(arg, context_type))), None)
    return None


class _UnresolvedContext:
    """Stands for a context type whose name cannot be resolved, but can only mean the context."""


class _UnresolvedSyncContext(_UnresolvedContext, BlockingContext):
    """The same for `SyncContext`."""


_CONTEXTS = {"Context": _UnresolvedContext, "SyncContext": _UnresolvedSyncContext}
_SUBSCRIPT = re.compile(r"\[.*\]", re.DOTALL)


class _Hints:
    """Resolves annotations, which are strings with `from __future__ import annotations`."""

    def __init__(self, name: str, core: Any, context_type: type) -> None:
        self._name = name
        self._core = inspect.unwrap(core) if inspect.isroutine(core) else core
        self._contexts = {context_type.__name__: _UnresolvedContext, **_CONTEXTS}
        self._ready = False

    def resolve(self, parameter: str, annotation: Any) -> Any:
        return self._from_text(parameter, annotation) if _holds_text(annotation) else annotation

    def _from_text(self, parameter: str, annotation: Any) -> Any:
        function = getattr(self._core, "__func__", self._core)
        names: dict[str, Any] = getattr(function, "__globals__", {})
        holder = types.SimpleNamespace(__annotations__={parameter: annotation})
        try:
            return typing.get_type_hints(holder, names, include_extras=True)[parameter]
        except NameError:
            pass
        except Exception as error:
            raise LocalError(f"{self._name}(): the annotation of {parameter} cannot be read: {error}") from error
        try:
            local = _enclosing(function)
            return typing.get_type_hints(holder, names, local, include_extras=True)[parameter]
        except Exception as error:
            # `if TYPE_CHECKING: from dovetail import Context` is good style and leaves no name to look up.
            if isinstance(annotation, str) and (context := self._unresolved_context(annotation)) is not None:
                return context
            raise LocalError(
                f"{self._name}(): the annotation {annotation!r} of {parameter} cannot be read: {error}; "
                "its names must exist when the function is registered"
            ) from error

    def _unresolved_context(self, text: str) -> type | None:
        for part in _SUBSCRIPT.sub("", text).split("|"):
            if (context := self._contexts.get(part.strip().strip("\"'").rpartition(".")[2])) is not None:
                return context
        return None


def _holds_text(annotation: Any) -> bool:
    if isinstance(annotation, (str, typing.ForwardRef)):
        return True
    origin = typing.get_origin(annotation)
    if origin is None or origin is typing.Literal:
        return False
    args = typing.get_args(annotation)
    return any(_holds_text(arg) for arg in (args[:1] if origin is typing.Annotated else args))


def _enclosing(function: Any) -> dict[str, Any]:
    """The variables that a local function can see: its closure and, while it runs, the enclosing function's scope."""
    closure: dict[str, Any] = {}
    code = getattr(function, "__code__", None)
    outer, _, _ = getattr(function, "__qualname__", "").rpartition(".<locals>.")
    name = outer.rpartition(".")[2]
    frame = sys._getframe(1) if outer else None  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code.co_name == name and frame.f_globals is function.__globals__:
            closure.update(frame.f_locals)
            break
        frame = frame.f_back
    for variable, cell in zip(code.co_freevars if code else (), function.__closure__ or (), strict=True):
        try:
            closure[variable] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    return closure
