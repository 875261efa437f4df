"""Events of a chat, and its limits."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from dovetail.host.models.contract import TextDelta
from dovetail.host.models.usage import Usage
from dovetail.types.content import ResourceLink
from dovetail.types.tools import CallToolResult


class LinkedResource(msgspec.Struct, frozen=True):
    """A resource that a server points at in a result; attach it to the next message to follow it."""

    server: str
    link: ResourceLink


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """A resource became part of the message, or could not."""

    server: str
    uri: str
    tokens: int = 0
    problem: str | None = None


class ToolStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The model wants a tool called; whether it is depends on policy and user."""

    id: str
    name: str
    """The name of the tool in the host, as `server__tool`."""
    server: str
    """The key of its server; empty for tools of the host itself."""
    tool: str
    arguments: dict[str, Any] = {}


class ToolProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a call; of several that were not read yet only the last is kept."""

    id: str
    name: str
    server: str
    tool: str
    progress: float
    total: float | None = None
    message: str | None = None


class ToolFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A call is over; its result is cleaned and cut, to be shown as that server's words."""

    id: str
    name: str
    server: str
    tool: str
    result: CallToolResult
    refused: bool = False
    """Policy or user said no; no server saw the call."""
    task: int | None = None
    """The number of the task that the call has become, if it goes on in the background."""
    links: tuple[LinkedResource, ...] = ()


EndReason: TypeAlias = Literal["done", "stopped", "length", "rounds", "calls", "output"]
"""The model was done; somebody stopped it; it used up its tokens; or the chat its rounds, calls or characters."""


class TurnEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The last event of a turn."""

    reason: EndReason
    usage: Usage | None = None
    """Of the whole turn, where the model's endpoint says."""
    last: Usage | None = None
    """Of the last answer alone: its tokens are the size of the conversation."""
    stop_reason: str | None = None
    """In the model's own words."""


ChatEvent: TypeAlias = TextDelta | Attached | ToolStarted | ToolProgress | ToolFinished | TurnEnded


class ChatLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one turn; sizes are in characters unless they say otherwise."""

    rounds: int = 20
    """Answers of the model; the last one has to do without tools."""
    calls: int = 100
    side_by_side: int = 16
    output: int = 400_000
    """Of the model's text."""
    result: int = 40_000
    """Of one tool result, as the model and the user see it."""
    results: int = 400_000
    instructions: int = 4_000
    """Of one server."""
    tools: int = 40
    """With more than these, the model searches for tools."""
    tokens: int = 4_096
    """That the model may write in one answer."""
    task_seconds: float = 15.0
    """Seconds that a turn waits for a call that became a task; after them the task goes on in the background."""
    attached: int = 8_000
    """Tokens of attached resources in one message, by the estimate."""
