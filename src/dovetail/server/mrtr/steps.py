"""Steps of a handler: work that runs once over all rounds, and whose outcome is kept as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

from dovetail.protocol.errors import LocalError, StepFailed
from dovetail.protocol.mrtr import JournalEntry
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.schema.hints.conversion import converter_for, return_hint
from dovetail.server.signatures.signature import json_builtins


class StepJournal(Protocol):
    """A call that remembers its steps."""

    async def step(self, name: str, step: Step) -> Any: ...


Step: TypeAlias = "Callable[[], Awaitable[Any]]"

_current: ContextVar[object] = ContextVar("dovetail-step", default=None)
"""The invocation whose step runs here."""


def make_step(
    invocation: object, thread_pool: ThreadPool, function: Callable[..., Any], client_key: Hashable = None
) -> Step:
    """A step that runs a function: on the loop if it is a coroutine function, else in a thread of its client."""

    async def step() -> Any:
        token = _current.set(invocation)
        try:
            return await thread_pool.call_any(function, client=client_key)
        finally:
            _current.reset(token)

    return step


def refuse_within_step(invocation: object, what: str) -> None:
    """A question cannot be part of a step: the step would have to be done again to get its answer."""
    if _current.get() is invocation:
        raise LocalError(f"{what} cannot be asked inside a step; ask before it, and hand the answer in")


async def run_step(step: Step, token: str) -> tuple[JournalEntry, Exception | None]:
    """Run a step; its outcome as the journal keeps it, and the exception if it failed."""
    try:
        value = await step()
        # Through JSON in every case, so that the handler sees the same now and when it runs again.
        return JournalEntry(token, json_builtins(value), step=True), None
    except Exception as problem:
        return JournalEntry(token, f"{type(problem).__name__}: {problem}", failed=True, step=True), problem


def step_result(name: str, entry: JournalEntry, problem: Exception | None = None) -> Any:
    """The result of a step as JSON; one that failed raises the same failure again."""
    if entry.failed:
        raise StepFailed(f"The step {name!r} failed: {entry.value}") from problem
    return entry.value


async def run_named_step(suspendable: StepJournal | None, name: str, function: Callable[..., Any], step: Step) -> Any:
    """The result of a step: from the journal of the call where it has one and the step is done, else of its work."""
    if suspendable is not None:
        value = await suspendable.step(name, step)
    else:
        value = step_result(name, *await run_step(step, name))
    return convert_result(name, function, value)


def convert_result(name: str, function: Callable[..., Any], value: Any) -> Any:
    """The result of a step as the type that its function declares to return; JSON without one, or one without JSON."""
    hint = return_hint(function)
    if hint is Any or hint is None:
        return value
    try:
        converter = converter_for(hint)
    except LocalError:
        return value
    try:
        return converter.convert(value)
    except ValueError as problem:
        raise StepFailed(f"The step {name!r} returned something else than {converter.name}: {problem}") from problem


def within_step(invocation: object, function: Callable[[], Any]) -> Any:
    """Call a function as part of a step, in this thread."""
    token = _current.set(invocation)
    try:
        return function()
    finally:
        _current.reset(token)
