"""Completions while somebody types: one request at a time for an argument, and only for the newest text."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias, TypeVar

from dovetail.protocol.errors import Overtaken
from dovetail.types.messages import (
    CompleteParams,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceReference,
)

MAX_ARGUMENTS = 256
"""Arguments whose last request is remembered."""

Reference: TypeAlias = "str | PromptReference | ResourceReference"
T = TypeVar("T")


def complete_params(
    reference: Reference, argument: str, value: str, context: Mapping[str, str] | None
) -> CompleteParams:
    """The params of a request; a string that looks like a URI, or a template of some, means resources."""
    if isinstance(reference, str):
        is_uri = "://" in reference or "{" in reference
        reference = ResourceReference(reference) if is_uri else PromptReference(reference)
    settled = CompletionContext(dict(context)) if context else None
    return CompleteParams(reference, CompletionArgument(argument, value), settled)


class ArgumentState:
    """What was asked for one argument."""

    __slots__ = ("free_at", "running", "turn")

    def __init__(self) -> None:
        self.turn = 0
        self.free_at = 0.0
        self.running: asyncio.Future[Any] | None = None


class Debounce:
    """Sends the first request at once, and of those that follow closely only the last."""

    def __init__(self) -> None:
        self._typings: OrderedDict[object, ArgumentState] = OrderedDict()

    async def run(self, key: object, seconds: float, send: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Send when it is time; raises `Overtaken` when a later one for the same key has come meanwhile."""
        typing = self._typing(key)
        typing.turn += 1
        turn, loop = typing.turn, asyncio.get_running_loop()
        if (wait := typing.free_at - loop.time()) > 0:
            await asyncio.sleep(wait)
            if typing.turn != turn:
                raise Overtaken("A later completion of the same argument took the place of this one")
        if typing.running is not None:
            typing.running.cancel()
        typing.free_at = loop.time() + seconds
        running = typing.running = asyncio.ensure_future(send())
        try:
            return await running
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if typing.turn == turn or (task is not None and task.cancelling()):
                raise
            raise Overtaken("A later completion of the same argument took the place of this one") from None
        finally:
            if typing.running is running:
                typing.running = None

    def _typing(self, key: object) -> ArgumentState:
        typing = self._typings.get(key)
        if typing is None:
            typing = self._typings[key] = ArgumentState()
            if len(self._typings) > MAX_ARGUMENTS:
                self._typings.popitem(last=False)
        else:
            self._typings.move_to_end(key)
        return typing
