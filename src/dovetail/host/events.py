"""Events of a host, and the status of its servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from dovetail.host.servers.state import State

EventKind: TypeAlias = Literal[
    "status", "lists", "resource", "log", "progress", "question", "withdrawn", "definition", "config", "task"
]


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of one server."""

    key: str
    state: State
    error: str | None = None
    """The last error, also when it is ready again."""
    problems: tuple[str, ...] = ()
    """Problems of a server that is ready, such as a list that was too long."""
    revision: str | None = None
    era: Literal["handshake", "envelope"] | None = None
    server: str | None = None
    """Name and version as the server claims them; not verified."""
    since: float = 0.0
    """Since when it is in this state, in seconds since the epoch."""
    restarts: int = 0
    trusted: bool = False
    tools: int = 0
    prompts: int = 0
    resources: int = 0
    templates: int = 0
    quarantined: int = 0


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that a server wrote to its stderr, a message that it logged, or what the host has to say of it."""

    at: float
    server: str
    source: Literal["stderr", "log", "host"]
    level: str
    text: str


class TrafficLine(msgspec.Struct, frozen=True, kw_only=True):
    """A message between the host and a server."""

    at: float
    server: str
    direction: Literal["sent", "received"]
    message: bytes
    """JSON, cut off where it is very long."""
    size: int
    tail: bytes = b""
    """The end of a message that was cut off; some peers write the id of an answer there."""


class CallProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a call (`progress` event)."""

    tool: str
    progress: float
    total: float | None = None
    message: str | None = None


class ResourceChange(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that is subscribed to has changed, or will not be told of any more (`resource` event)."""

    uri: str
    problem: str | None = None


class HostEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something happened.

    `detail` is by kind: status `ServerStatus`; lists "tools", "prompts", "resources", "templates" or
    "instructions"; resource
    `ResourceChange`; log `LogLine`; progress `CallProgress`; question and withdrawn the question, for elicitation a
    `HostElicitation`; definition the `Withheld` that is new; config a text, or an error; task the `HostTask` that
    began or changed.
    """

    kind: EventKind
    server: str = ""
    detail: Any = None


OnEvent: TypeAlias = Callable[[HostEvent], None]
OnTraffic: TypeAlias = Callable[[TrafficLine], None]
