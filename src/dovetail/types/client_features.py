"""What a server asks of a client: a model's answer, a user's answer, the roots; and asking in rounds."""

from typing import Any, Literal, TypeAlias

import msgspec

from .base import EmptyParams
from .content import Role, SamplingContent, Text
from .serialization import Value
from .tasks import TaskMetadata
from .tools import Tool


class ModelHint(Value):
    """Part of the name of a model that would do."""

    name: str | None = None


class ModelPreferences(Value, kw_only=True):
    """What matters in the choice of a model, each from 0 to 1."""

    hints: list[ModelHint] | None = None
    cost_priority: int | float | None = None
    speed_priority: int | float | None = None
    intelligence_priority: int | float | None = None


class SamplingMessage(Value):
    """One message of the conversation that a model is to go on with."""

    role: Role
    content: SamplingContent | list[SamplingContent]


class ToolChoice(Value):
    """Whether the model may or must use the tools given."""

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
    """What the model said."""

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
    """What the user did with the question; `content` only when it was accepted with a form."""

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
    """The roots of a client."""

    roots: list[Root] = msgspec.field(default_factory=list[Root])


class SamplingRequest(Value, tag_field="method", tag="sampling/createMessage"):
    """A question to the model, within a round."""

    params: CreateMessageParams


class ElicitRequest(Value, tag_field="method", tag="elicitation/create"):
    """A question to the user, within a round."""

    params: ElicitParams


class RootsRequest(Value, tag_field="method", tag="roots/list"):
    """A question for the roots, within a round."""

    params: EmptyParams | None = None


InputRequest: TypeAlias = SamplingRequest | ElicitRequest | RootsRequest


def method_of(question: InputRequest) -> str:
    """The method that a question is a request for."""
    return str(type(question).__struct_config__.tag)


class InputRequired(Value, tag_field="resultType", tag="input_required"):
    """An answer that asks back: the request is to come again with the answers and the state as it was given.

    At least one of the two must be there (2026-07-28 basic/patterns/mrtr, "InputRequiredResult").
    """

    requests: dict[str, InputRequest] | None = msgspec.field(default=None, name="inputRequests")
    state: str | None = msgspec.field(default=None, name="requestState")
