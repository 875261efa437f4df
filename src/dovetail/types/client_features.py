"""Requests from servers to clients: sampling, elicitation and roots, direct or as input requests of another request."""

from typing import Any, Literal, TypeAlias

import msgspec

from .base import EmptyParams
from .content import Role, SamplingContent, Text
from .serialization import Value
from .tasks import TaskMetadata
from .tools import Tool


class ModelHint(Value):
    """Part of the name of a suitable model."""

    name: str | None = None


class ModelPreferences(Value, kw_only=True):
    """Preferences for the choice of a model; each priority is from 0 to 1."""

    hints: list[ModelHint] | None = None
    cost_priority: int | float | None = None
    speed_priority: int | float | None = None
    intelligence_priority: int | float | None = None


class SamplingMessage(Value):
    """One message of the conversation that a model is to continue."""

    role: Role
    content: SamplingContent | list[SamplingContent]


class ToolChoice(Value):
    """The model's use of the given tools: allowed, required or none."""

    mode: Literal["auto", "required", "none"] | None = None


class CreateMessageParams(Value):
    """Params of `sampling/createMessage`."""

    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    temperature: int | float | None = None
    stop_sequences: list[str] | None = None
    model_preferences: ModelPreferences | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    metadata: dict[str, Any] | None = None
    task: TaskMetadata | None = None


class CreateMessageResult(Value):
    """Result of `sampling/createMessage`: the model's answer."""

    role: Role
    content: SamplingContent | list[SamplingContent]
    model: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "\n".join(block.text for block in blocks if isinstance(block, Text))


class ElicitParams(Value):
    """Params of `elicitation/create`: a form with its schema, or a page to open (`mode` "url")."""

    message: str
    requested_schema: dict[str, Any] | None = None
    mode: Literal["form", "url"] | None = None
    url: str | None = None
    elicitation_id: str | None = None
    task: TaskMetadata | None = None


class ElicitResult(Value):
    """Result of `elicitation/create`: the user's action; `content` only if a form was accepted."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class ElicitationCompleteParams(Value):
    """Params of `notifications/elicitation/complete`."""

    elicitation_id: str


class Root(Value):
    """A directory or file, as a file URI, that a server may work in."""

    uri: str
    name: str | None = None


class ListRootsResult(Value):
    """Result of `roots/list`."""

    roots: list[Root] = msgspec.field(default_factory=list[Root])


class SamplingRequest(Value, tag_field="method", tag="sampling/createMessage"):
    """An input request for sampling."""

    params: CreateMessageParams


class ElicitRequest(Value, tag_field="method", tag="elicitation/create"):
    """An input request for elicitation."""

    params: ElicitParams


class RootsRequest(Value, tag_field="method", tag="roots/list"):
    """An input request for the roots."""

    params: EmptyParams | None = None


InputRequest: TypeAlias = SamplingRequest | ElicitRequest | RootsRequest


def method_of(request: InputRequest) -> str:
    """The method of an input request."""
    return str(type(request).__struct_config__.tag)


class InputRequired(Value, tag_field="resultType", tag="input_required"):
    """A result that asks for input: the client retries the request with the input and with the state unchanged.

    At least one of `requests` and `state` must be present (2026-07-28 basic/patterns/mrtr, "InputRequiredResult").
    """

    requests: dict[str, InputRequest] | None = msgspec.field(default=None, name="inputRequests")
    state: str | None = msgspec.field(default=None, name="requestState")
