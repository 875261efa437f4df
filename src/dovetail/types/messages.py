"""Params and results of the base protocol and of utilities: lifecycle, progress, logging, completion, subscriptions."""

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
    """Result of `initialize`."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None


class DiscoverResult(CacheableResult):
    """Result of `server/discover` (envelope era); the server's `Implementation` is in `_meta`."""

    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | None = None


class CancelledParams(Value):
    """Params of `notifications/cancelled`; only 2025-11-25 allows it without an id."""

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
    """The prompt, by name, whose argument is to be completed."""

    name: str
    title: str | None = None


class ResourceReference(Value, tag="ref/resource"):
    """The resource template whose variable is to be completed."""

    uri: str


class CompletionArgument(Value):
    """The argument to complete and the text typed so far."""

    name: str
    value: str


class CompletionContext(Value):
    """The arguments that have their values already."""

    arguments: dict[str, str] | None = None


class CompleteParams(Value):
    """Params of `completion/complete`."""

    ref: PromptReference | ResourceReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class Completion(Value):
    """The suggested values, at most 100."""

    values: list[str] = msgspec.field(default_factory=list[str])
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result):
    """Result of `completion/complete`."""

    completion: Completion


class SubscriptionFilter(Value, kw_only=True):
    """The notifications that a client subscribes to."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class ListenParams(Value):
    """Params of `subscriptions/listen`."""

    notifications: SubscriptionFilter


class AcknowledgedParams(Value):
    """Params of `notifications/subscriptions/acknowledged`: the notifications that the server will send."""

    notifications: SubscriptionFilter


class ListenResult(Result):
    """Result of `subscriptions/listen`, sent when the subscription ends; its id is in `_meta`."""
