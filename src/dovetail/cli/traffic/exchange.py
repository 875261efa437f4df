"""An exchange: a request with its answer and the notifications about it, or a notification alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from dovetail.host.events import TrafficLine

Outcome: TypeAlias = Literal[
    "waiting", "ok", "error", "tool error", "cancelled", "no answer", "input required", "notification"
]
"""Outcome of an exchange: "no answer" once its id is used again, as after a restart of the server.

An answer that comes after a cancellation leaves it cancelled.
"""

FAILURES = frozenset({"error", "tool error", "cancelled", "no answer"})
MAX_RELATED = 200
"""Notifications kept for each exchange, such as progress; further ones are counted."""

_SUBJECTS = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
    "notifications/resources/updated": "uri",
    "notifications/message": "level",
    "logging/setLevel": "level",
}
"""Methods, and the member of their params that says what they are about."""


@dataclass(eq=False)
class TrafficExchange:
    """A request and what belongs to it; `TrafficLog` fills it in as messages arrive."""

    number: int
    """Counts from 1 for each log; it never changes."""
    request: TrafficLine
    """The request, or the notification, or a message that is neither."""
    method: str
    """Empty for a message that is no request and no notification, such as an answer to an unknown request."""
    subject: str = ""
    """The tool, prompt or URI of the request."""
    outcome: Outcome = "waiting"
    answer: TrafficLine | None = None
    error: str = ""
    """The message of an error, or the reason of a cancellation."""
    related: list[TrafficLine] = field(default_factory=list[TrafficLine])
    """Notifications about the request, oldest first: progress, cancellation, events of a subscription."""
    related_count: int = 0
    related_bytes: int = 0

    @property
    def server(self) -> str:
        """The key of the server."""
        return self.request.server

    @property
    def at(self) -> float:
        """When the request was seen, in seconds since the epoch."""
        return self.request.at

    @property
    def from_server(self) -> bool:
        """True if the server sent the request."""
        return self.request.direction == "received"

    @property
    def failed(self) -> bool:
        """True if it ended with an error, an error of a tool, a cancellation, or without an answer."""
        return self.outcome in FAILURES

    @property
    def seconds(self) -> float | None:
        """Seconds from the request to its answer; None without an answer."""
        return None if self.answer is None else max(self.answer.at - self.request.at, 0.0)

    @property
    def bytes(self) -> int:
        """Bytes of the request, its answer and the notifications about it."""
        return self.request.size + (0 if self.answer is None else self.answer.size) + self.related_bytes

    def relate(self, line: TrafficLine) -> bool:
        """Add a notification about the request; whether it is kept, and not only counted."""
        self.related_count += 1
        self.related_bytes += line.size
        kept = len(self.related) < MAX_RELATED
        if kept:
            self.related.append(line)
        return kept


def subject_of(method: str, params: Any) -> str:
    """The tool, prompt, URI or level that a request is about; empty if it names none."""
    if not isinstance(params, dict):
        return ""
    name: Any = params.get(_SUBJECTS.get(method, ""))  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return name if isinstance(name, str) else ""
