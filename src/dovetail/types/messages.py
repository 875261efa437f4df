"""What keeps a connection going: first contact, cancelling, progress, logging, completion, subscriptions."""

from typing import Any, Literal, TypeAlias

import msgspec

from .base import CacheableResult, Result
from .capabilities import ClientCapabilities, Implementation, ServerCapabilities
from .serialization import Value

Token: TypeAlias = str | int
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class InitializeParams(Value):
    """Params of `initialize`."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


class InitializeResult(Value):
    """The server's half of the handshake."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None


class DiscoverResult(CacheableResult):
    """What a server of the envelope era can do; who it is stands in `_meta`."""

    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | None = None


class CancelledParams(Value):
    """Params of `notifications/cancelled`; only 2025-11-25 allows it to come without an id."""

    request_id: Token | None = None
    reason: str | None = None


class ProgressParams(Value):
    """Params of `notifications/progress`."""

    progress_token: Token
    progress: int | float
    total: int | float | None = None
    message: str | None = None


class SetLevelParams(Value):
    """Params of `logging/setLevel`."""

    level: LogLevel


class LogParams(Value):
    """Params of `notifications/message`; `data` is any JSON value."""

    level: LogLevel
    data: Any
    logger: str | None = None


class PromptReference(Value, tag="ref/prompt"):
    """A prompt, by name, whose argument is to be completed."""

    name: str
    title: str | None = None


class ResourceReference(Value, tag="ref/resource"):
    """A resource template whose variable is to be completed."""

    uri: str


class CompletionArgument(Value):
    """The argument to complete and what was typed so far."""

    name: str
    value: str


class CompletionContext(Value):
    """The arguments that are settled already."""

    arguments: dict[str, str] | None = None


class CompleteParams(Value):
    """Params of `completion/complete`."""

    ref: PromptReference | ResourceReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class Completion(Value):
    """The values that would do; at most 100 of them."""

    values: list[str] = msgspec.field(default_factory=list[str])
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result):
    """The answer to `completion/complete`."""

    completion: Completion


class SubscriptionFilter(Value, kw_only=True):
    """The changes that a client wants to hear of."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class ListenParams(Value):
    """Params of `subscriptions/listen`."""

    notifications: SubscriptionFilter


class AcknowledgedParams(Value):
    """Params of `notifications/subscriptions/acknowledged`: the changes that the server will tell of."""

    notifications: SubscriptionFilter


class ListenResult(Result):
    """The end of a subscription; which one stands in `_meta`."""
