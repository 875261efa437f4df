"""Models of Anthropic, or of a server that speaks its messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, ClassVar

from dovetail.protocol.errors import ConnectionLost, InvalidAnswer, LocalError
from dovetail.types.client_features import CreateMessageParams

from .anthropic_messages import request_of
from .contract import ModelEvent, TextDelta
from .delta_assembly import AnswerAssembly
from .remote import RemoteModel
from .tool_names import ToolNames
from .usage import usage_meta

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import RawMessageStreamEvent

STOP_REASONS = {
    "end_turn": "endTurn",
    "max_tokens": "maxTokens",
    "stop_sequence": "stopSequence",
    "tool_use": "toolUse",
    "pause_turn": "pauseTurn",
    "model_context_window_exceeded": "contextWindowExceeded",
}


class AnthropicModel(RemoteModel["AsyncAnthropic"]):
    """A model of Anthropic: `AnthropicModel("claude-sonnet-4-5")`."""

    package: ClassVar[str] = "anthropic"
    key_names: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    headers_name: ClassVar[str] = "ANTHROPIC_CUSTOM_HEADERS"

    async def _stream(self, params: CreateMessageParams) -> AsyncGenerator[ModelEvent]:
        client = await self._client()
        reader = _AnswerReader(self.name, AnswerAssembly(ToolNames(tool.name for tool in params.tools or ())))
        async with await self._send_request(client, params) as events:
            async for event in events:
                if (piece := reader.feed(event)) is not None:
                    yield TextDelta(piece)
        yield reader.whole()

    async def _send_request(
        self, client: AsyncAnthropic, params: CreateMessageParams
    ) -> AsyncStream[RawMessageStreamEvent]:
        warmth = self._temperature(params)
        try:
            return await client.messages.create(
                **request_of(params, self.name),
                stream=True,
                extra_body=None if warmth is None else {"temperature": warmth},  # the library has no name for it
            )
        except Exception as problem:
            if not self._warms_to(problem, params):
                raise
        return await self._send_request(client, params)

    def _make(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient, Omit

        headers: dict[str, str] = {name: Omit() for name in self._foreign_headers()}  # pyright: ignore[reportAssignmentType]
        client = AsyncAnthropic(
            api_key=self._key(),
            base_url=self._base_url,
            timeout=self._timeout,
            max_retries=self._retries,
            default_headers=headers,
            http_client=DefaultAsyncHttpxClient(follow_redirects=False),
        )
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            raise LocalError(f"The model {self.name} needs a key: give api_key=…, or set ANTHROPIC_API_KEY")
        return client


class _AnswerReader:
    """Reads one answer of the model from its events."""

    def __init__(self, name: str, assembly: AnswerAssembly) -> None:
        self._name = name
        self._model = name
        self._assembly = assembly
        self._reason: str | None = None
        self._read: int | None = None
        self._written: int | None = None
        self._begun = False

    def feed(self, event: RawMessageStreamEvent) -> str | None:
        """Process one event; returns the new text in it, if any."""
        match event.type:
            case "message_start":
                self._begun = True
                self._model = event.message.model or self._name
                self._read = event.message.usage.input_tokens
            case "content_block_start":
                return self._begin(event.index, event.content_block)
            case "content_block_delta":
                return self._go_on(event.index, event.delta)
            case "message_delta":
                self._reason = event.delta.stop_reason or self._reason
                self._written = event.usage.output_tokens
            case _:
                pass
        return None

    def _begin(self, index: int, block: object) -> str | None:
        if getattr(block, "type", None) == "tool_use":
            self._assembly.use(index, getattr(block, "id", None), getattr(block, "name", None))
        elif getattr(block, "type", None) == "text":
            return self._text(index, getattr(block, "text", None))
        return None

    def _go_on(self, index: int, delta: object) -> str | None:
        if getattr(delta, "type", None) == "input_json_delta":
            self._assembly.arguments(index, str(getattr(delta, "partial_json", "")))
        elif getattr(delta, "type", None) == "text_delta":
            return self._text(index, getattr(delta, "text", None))
        return None

    def _text(self, index: int, piece: object) -> str | None:
        if not isinstance(piece, str) or not piece:
            return None
        self._assembly.text(index, piece)
        return piece

    def whole(self) -> ModelEvent:
        """The answer, once all has been read."""
        if not self._begun:
            raise InvalidAnswer(f"The endpoint of the model {self._name} answered with something else than an answer")
        if self._reason is None:
            raise ConnectionLost(f"The answer of the model {self._name} broke off")
        reason = STOP_REASONS.get(self._reason, self._reason)
        return self._assembly.result(self._model, reason, usage_meta(self._read, self._written))
