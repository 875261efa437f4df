"""Steps of a handler: work that is done once, and whose outcome is remembered as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeAlias

from dovetail.protocol.errors import LocalError, StepFailed
from dovetail.protocol.mrtr import Entry
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.server.signatures.signature import plain

Work: TypeAlias = "Callable[[], Awaitable[Any]]"

_whose: ContextVar[object] = ContextVar("dovetail-step", default=None)
"""The context whose step runs here."""


def work_of(whose: object, workers: ThreadPool, function: Callable[..., Any]) -> Work:
    """The way to run a step's function: on the loop if it is a coroutine function, else in a thread."""

    async def work() -> Any:
        token = _whose.set(whose)
        try:
            return await workers.call_any(function)
        finally:
            _whose.reset(token)

    return work


def refuse_within_step(whose: object, what: str) -> None:
    """A question cannot be part of a step: the step would have to be done again to get its answer."""
    if _whose.get() is whose:
        raise LocalError(f"{what} cannot be asked inside a step; ask before it, and hand the answer in")


async def take_step(work: Work, token: str) -> tuple[Entry, Exception | None]:
    """Do some work, and say what came of it as it will be remembered."""
    try:
        value = await work()
        # Through JSON in every case, so that the handler sees the same now and when it runs again.
        return Entry(token, plain(value), step=True), None
    except Exception as problem:
        return Entry(token, f"{type(problem).__name__}: {problem}", failed=True, step=True), problem


def outcome_of(name: str, entry: Entry, problem: Exception | None = None) -> Any:
    """What a step gave; one that failed fails again, the same way."""
    if entry.failed:
        raise StepFailed(f"The step {name!r} failed: {entry.value}") from problem
    return entry.value
