"""Models behind an endpoint that speaks OpenAI's chat completions, such as local model servers do."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, ClassVar

from dovetail.protocol.errors import ConnectionLost, InvalidAnswer
from dovetail.types.interaction import CreateMessageParams, CreateMessageResult

from .assembling import Assembly
from .contract import ModelEvent, TextDelta
from .openai_messages import request_of
from .remote import RemoteModel
from .tool_names import ToolNames
from .usage import usage_meta

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDelta

STOP_REASONS = {
    "stop": "endTurn",
    "length": "maxTokens",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
    "content_filter": "contentFilter",
}


class OpenAIModel(RemoteModel):
    """A model of OpenAI, or with `base_url` of any server that speaks like it: `OpenAIModel("qwen3", base_url=…)`."""

    package: ClassVar[str] = "openai"
    key_names: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    _client: AsyncOpenAI | None = None

    async def close(self) -> None:
        """Let go of connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _stream(self, params: CreateMessageParams) -> AsyncGenerator[ModelEvent]:
        client = self._client or await self._connect()
        assembly = Assembly(ToolNames(tool.name for tool in params.tools or ()))
        model, reason, meta, heard = self.name, None, None, False
        async with await self._ask(client, params) as chunks:
            async for chunk in chunks:
                heard = True
                model = chunk.model or model
                if chunk.usage is not None:
                    meta = usage_meta(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
                for choice in (chunk.choices or ())[:1]:
                    reason = choice.finish_reason or reason
                    if (piece := _take(assembly, choice.delta)) is not None:
                        yield TextDelta(piece)
        if not heard:
            raise InvalidAnswer(f"The endpoint of the model {self.name} answered with something else than an answer")
        if reason is None:
            raise ConnectionLost(f"The answer of the model {self.name} broke off")
        yield _whole(assembly, model, reason, meta)

    async def _ask(self, client: AsyncOpenAI, params: CreateMessageParams) -> AsyncStream[ChatCompletionChunk]:
        own = (client.base_url.host or "").endswith("openai.com")
        limit = "max_completion_tokens" if own else "max_tokens"  # only the old name is known to all the others
        try:
            return await client.chat.completions.create(
                **request_of(params, self.name, limit, self._temperature(params)), stream=True
            )
        except Exception as problem:
            if not self._warms_to(problem, params):
                raise
        return await self._ask(client, params)

    async def _connect(self) -> AsyncOpenAI:
        await self._library()
        from openai import AsyncOpenAI

        if self._client is None:
            self._client = AsyncOpenAI(
                api_key=self._key(), base_url=self._base_url, timeout=self._timeout, max_retries=self._retries
            )
        return self._client


def _whole(assembly: Assembly, model: str, reason: str, meta: dict[str, Any] | None) -> CreateMessageResult:
    return assembly.result(model, STOP_REASONS.get(reason, reason), meta)


def _take(assembly: Assembly, delta: ChoiceDelta | None) -> str | None:
    """Take up what is new; the text of it, if any. A local server may leave out any field."""
    if delta is None:
        return None
    for place, call in enumerate(delta.tool_calls or ()):
        key = ("use", place if getattr(call, "index", None) is None else call.index)
        function = call.function
        assembly.use(key, call.id, function.name if function else None)
        if function and function.arguments:
            assembly.arguments(key, function.arguments)
    piece = delta.content or delta.refusal
    if piece:
        assembly.text("text", piece)
    return piece or None
