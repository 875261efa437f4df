"""Models behind an endpoint that speaks OpenAI's chat completions, such as local model servers do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, ClassVar

import msgspec

from dovetail.protocol.errors import InvalidAnswer
from dovetail.types.client_features import CreateMessageParams
from dovetail.wire.sse import EventParser

from .contract import ModelEvent, TextDelta
from .delta_assembly import AnswerAssembly
from .openai_answers import AnswerReader
from .openai_messages import request_of
from .remote import RemoteModel
from .tool_names import ToolNames

if TYPE_CHECKING:
    from openai import AsyncAPIResponse, AsyncOpenAI, AsyncStream
    from openai.types.chat import ChatCompletionChunk

MAX_BODY = 16_000_000
"""Bytes of one event, or of an answer that comes in one piece: more than any text within the limit takes."""

_END = b"[DONE]"
_DRAIN_SECONDS = 0.2
"""For what comes after the end, so that the connection can be used again."""


class OpenAIModel(RemoteModel["AsyncOpenAI"]):
    """A model of OpenAI, or with `base_url` of any server that speaks like it: `OpenAIModel("qwen3", base_url=…)`."""

    package: ClassVar[str] = "openai"
    key_names: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    headers_name: ClassVar[str] = "OPENAI_CUSTOM_HEADERS"

    async def _stream(self, params: CreateMessageParams) -> AsyncGenerator[ModelEvent]:
        client = await self._client()
        reader = AnswerReader(self.name, AnswerAssembly(ToolNames(tool.name for tool in params.tools or ())))
        async with contextlib.AsyncExitStack() as stack:
            response = await self._send_request(stack, client, params)
            if response.headers.get("content-type", "").startswith("application/json"):
                # It does not stream, though it was asked to.
                piece = reader.feed(msgspec.json.decode(await self._body(response.iter_bytes())))
                if piece is not None:
                    yield TextDelta(piece)
                yield reader.whole(ended=True)
                return
            ended, parser, arriving = False, EventParser(MAX_BODY), aiter(response.iter_bytes())
            async for data in _events(arriving, parser):
                if data.startswith(_END):
                    ended = True
                    break
                if (piece := reader.feed(msgspec.json.decode(data))) is not None:
                    yield TextDelta(piece)
            whole = reader.whole(ended=ended)
            await _drain(arriving)
        yield whole

    async def _send_request(
        self, stack: contextlib.AsyncExitStack, client: AsyncOpenAI, params: CreateMessageParams
    ) -> AsyncAPIResponse[AsyncStream[ChatCompletionChunk]]:
        own = (client.base_url.host or "").endswith("openai.com")
        limit = "max_completion_tokens" if own else "max_tokens"  # only the old name is known to all the others
        body = request_of(params, self.name, limit, self._temperature(params))
        try:
            return await stack.enter_async_context(
                client.chat.completions.with_streaming_response.create(**body, stream=True)
            )
        except Exception as problem:
            if not self._warms_to(problem, params):
                raise
        return await self._send_request(stack, client, params)

    async def _body(self, arriving: AsyncIterator[bytes]) -> bytes:
        body = bytearray()
        async for chunk in arriving:
            body += chunk
            if len(body) > MAX_BODY:
                raise InvalidAnswer(f"The model {self.name} answered with more than {MAX_BODY:,} bytes")
        return bytes(body)

    def _make(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit

        foreign = [*self._foreign_headers(), *(("OpenAI-Organization", "OpenAI-Project") if self._base_url else ())]
        headers: dict[str, str] = {name: Omit() for name in foreign}  # pyright: ignore[reportAssignmentType]
        return AsyncOpenAI(
            api_key=self._key(),
            base_url=self._base_url,
            timeout=self._timeout,
            max_retries=self._retries,
            default_headers=headers,
            http_client=DefaultAsyncHttpxClient(follow_redirects=False),
        )


async def _events(arriving: AsyncIterator[bytes], parser: EventParser) -> AsyncGenerator[bytes]:
    async for chunk in arriving:
        for event in parser.feed(chunk):
            if event.data:
                yield event.data


async def _drain(arriving: AsyncIterator[bytes]) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in arriving:
                pass
