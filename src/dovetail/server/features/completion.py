"""Suggestions for the arguments of prompts and the variables of resource templates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, LocalError, ProtocolError, not_found_error
from dovetail.runtime.rate_limit import TokenBuckets, rate_limit_error
from dovetail.server.context import RequestContext
from dovetail.server.invocation import Invocation
from dovetail.server.session import ServerCall
from dovetail.server.signatures.binding import Binding
from dovetail.server.signatures.hints import REQUIRED, inspect_callable
from dovetail.text.rank import MAX_VALUES, rank_values
from dovetail.types.messages import CompleteParams, CompleteResult, Completion, PromptReference

from .invoke import run_handler

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore

COMPLETIONS_AT_ONCE = 60.0

Suggest: TypeAlias = "Callable[..., Any]"


class RegisteredCompletion:
    """A function that suggests values: of what was typed and, if it wants, of the arguments settled already."""

    def __init__(self, function: Suggest) -> None:
        shape = inspect_callable(function, RequestContext)
        names = [parameter.name for parameter in shape.parameters]
        needed = [parameter.name for parameter in shape.parameters if parameter.default is REQUIRED]
        if not names or len(needed) > 2:
            raise LocalError(
                f"{shape.name}() suggests values: it takes what was typed and, if it wants, the arguments so far"
            )
        self.function = function
        self.binding = Binding(shape.context_name, shape.is_async, None, blocking_context=shape.blocking_context)
        self._typed = names[0]
        self._settled = names[1] if len(names) > 1 else None

    async def suggest(self, invocation: Invocation, params: CompleteParams) -> Completion:
        """Run the function; a list that it returns is ranked, a `Completion` keeps its order."""
        typed, settled = params.argument.value, params.context.arguments if params.context is not None else None
        values: dict[str, Any] = {self._typed: typed}
        if self._settled is not None:
            values[self._settled] = settled or {}
        subject = f"Completing {params.argument.name!r}"
        value = await run_handler(self.function, self.binding, values, invocation, subject)
        if isinstance(value, Completion):
            cut = len(value.values) > MAX_VALUES
            total = value.total if value.total is not None or not cut else len(value.values)
            return Completion(value.values[:MAX_VALUES], total, value.has_more or cut)
        every = rank_values(_texts(value, subject), typed)
        return Completion(every[:MAX_VALUES], len(every), len(every) > MAX_VALUES)


class Completions:
    """The functions of one server that suggest values, by what they suggest for."""

    def __init__(self, rate: float) -> None:
        self._functions: dict[tuple[str, str], RegisteredCompletion] = {}
        self._buckets = TokenBuckets(rate, max(rate, COMPLETIONS_AT_ONCE))

    def __bool__(self) -> bool:
        return bool(self._functions)

    def add(self, reference: str, argument: str, function: Suggest) -> None:
        """Suggest values for an argument of a prompt, or for a variable of a template."""
        if (reference, argument) in self._functions:
            raise LocalError(f"There is a completion for {argument!r} of {reference!r} already")
        self._functions[reference, argument] = RegisteredCompletion(function)

    def references(self) -> list[tuple[str, str]]:
        """The prompts and templates that there are completions for, each with its argument."""
        return list(self._functions)

    def find(self, reference: str, argument: str) -> RegisteredCompletion | None:
        """The completion registered for this argument; None if there is none."""
        return self._functions.get((reference, argument))

    def admit(self, key: object) -> None:
        """Count a request; one too many is refused (completion, "Security")."""
        wait = self._buckets.take(key, time.monotonic())
        if wait > 0:
            raise rate_limit_error("completion requests", wait)


async def complete(core: ServerCore, call: ServerCall, params: CompleteParams) -> CompleteResult:
    """Answer `completion/complete`; what is not there is −32602 (completion, "Error Handling")."""
    reference, names = _known(core, params, call.terms.principal)
    argument = params.argument.name
    if argument not in names:
        known = f"; there are {', '.join(names)}" if names else ""
        raise ProtocolError(INVALID_PARAMS, f"{reference!r} has no argument {argument!r}{known}")
    completion = core.find_completion(reference, argument)
    if completion is None:
        return CompleteResult(Completion([], 0, False))
    home, registered = completion
    return CompleteResult(await registered.suggest(Invocation(home, call), params))


def _known(core: ServerCore, params: CompleteParams, principal: str | None) -> tuple[str, list[str]]:
    """The prompt or template that is meant, and what it takes."""
    ref = params.ref
    if isinstance(ref, PromptReference):
        prompt = core.prompts.get(ref.name)
        if prompt is None or not core.shows(principal, "prompt", ref.name):
            raise not_found_error(f"Unknown prompt: {ref.name}")
        return ref.name, [argument.name for argument in prompt.definition.arguments or ()]
    template = core.templates.get(ref.uri)
    if template is None and (match := core.find_resource(ref.uri)) is not None:
        template = match[0]
    if template is None or not core.shows(principal, "resource", template.key):
        raise not_found_error(f"Unknown resource template: {ref.uri}", {"uri": ref.uri})
    return template.key, list(template.template.variables) if template.template is not None else []


def _texts(value: Any, subject: str) -> list[str]:
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        values = list(cast("Iterable[Any]", value))
        if all(isinstance(value, str) for value in values):
            return values
    raise ProtocolError(INTERNAL_ERROR, f"{subject} failed: it gave something else than a list of strings")
