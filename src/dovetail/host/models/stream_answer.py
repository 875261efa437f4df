"""One whole answer of a model, as a server that asks for sampling gets it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from dovetail.protocol.errors import InvalidAnswer
from dovetail.protocol.sampling import blocks_of, check_conversation
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult
from dovetail.types.content import ToolUse

from .contract import Model, ModelEvent
from .delta_assembly import unreadable


@asynccontextmanager
async def stream_answer(model: Model, params: CreateMessageParams) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
    """The pieces of an answer; the model is stopped when nobody listens any more."""
    events = model.respond(params)
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


async def full_answer(model: Model, params: CreateMessageParams) -> CreateMessageResult:
    """The whole answer of a model.

    A conversation whose tool uses and results do not pair up is refused before the model is asked (−32602).
    """
    check_conversation(params.messages)
    async with stream_answer(model, params) as events:
        async for event in events:
            if isinstance(event, CreateMessageResult):
                return _checked(model, event)
    raise InvalidAnswer(f"The model {model.name} stopped without an answer")


def _checked(model: Model, answer: CreateMessageResult) -> CreateMessageResult:
    for block in blocks_of(answer.content):
        if isinstance(block, ToolUse) and unreadable(block) is not None:
            raise InvalidAnswer(f"The model {model.name} gave arguments for {block.name} that are no JSON object")
    return replace(answer, meta=None)
