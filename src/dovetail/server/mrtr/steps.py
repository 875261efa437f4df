"""Steps of a handler: work that runs once over all rounds, and whose outcome is kept as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeAlias

from dovetail.protocol.errors import LocalError, StepFailed
from dovetail.protocol.mrtr import JournalEntry
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.server.signatures.signature import json_builtins

Step: TypeAlias = "Callable[[], Awaitable[Any]]"

_current: ContextVar[object] = ContextVar("dovetail-step", default=None)
"""The invocation whose step runs here."""


def make_step(invocation: object, thread_pool: ThreadPool, function: Callable[..., Any]) -> Step:
    """A step that runs a function: on the loop if it is a coroutine function, else in a thread."""

    async def step() -> Any:
        token = _current.set(invocation)
        try:
            return await thread_pool.call_any(function)
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
    """The result of a step; one that failed raises the same failure again."""
    if entry.failed:
        raise StepFailed(f"The step {name!r} failed: {entry.value}") from problem
    return entry.value
