"""Debounced completion: one request at a time for an argument, and only for the newest text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias, TypeVar

from dovetail.protocol.errors import Overtaken
from dovetail.types.bounded_dict import BoundedDict
from dovetail.types.messages import (
    CompleteParams,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceReference,
)

MAX_ARGUMENTS = 256
"""Arguments whose state is kept; the least recently used are dropped."""

Reference: TypeAlias = "str | PromptReference | ResourceReference"
T = TypeVar("T")


def complete_params(
    reference: Reference, argument: str, value: str, context: Mapping[str, str] | None
) -> CompleteParams:
    """The params of `completion/complete`; a reference with `://` or `{` is a resource, any other a prompt."""
    if isinstance(reference, str):
        is_uri = "://" in reference or "{" in reference
        reference = ResourceReference(reference) if is_uri else PromptReference(reference)
    settled = CompletionContext(dict(context)) if context else None
    return CompleteParams(reference, CompletionArgument(argument, value), settled)


class ArgumentState:
    """The requests for one argument: the number of the last, the one in flight, and when the next may be sent."""

    __slots__ = ("free_at", "running", "turn")

    def __init__(self) -> None:
        self.turn = 0
        self.free_at = 0.0
        self.running: asyncio.Future[Any] | None = None


class Debounce:
    """Sends the first request at once, and of those that follow within the interval only the last."""

    def __init__(self) -> None:
        self._arguments = BoundedDict[object, ArgumentState](MAX_ARGUMENTS)

    async def run(self, key: object, seconds: float, send: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Send after the interval; raises `Overtaken` when a later request for the same key takes its place."""
        state = self._argument(key)
        state.turn += 1
        turn, loop = state.turn, asyncio.get_running_loop()
        if (wait := state.free_at - loop.time()) > 0:
            await asyncio.sleep(wait)
            if state.turn != turn:
                raise Overtaken("A later completion of the same argument took the place of this one")
        if state.running is not None:
            state.running.cancel()
        state.free_at = loop.time() + seconds
        running = state.running = asyncio.ensure_future(send())
        try:
            return await running
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if state.turn == turn or (task is not None and task.cancelling()):
                raise
            raise Overtaken("A later completion of the same argument took the place of this one") from None
        finally:
            if state.running is running:
                state.running = None

    def _argument(self, key: object) -> ArgumentState:
        state = self._arguments.get_and_refresh(key)
        if state is None:
            state = self._arguments[key] = ArgumentState()
        return state
