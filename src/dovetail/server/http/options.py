"""How a server is offered over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.protocol.request_guard import MAX_BODY
from dovetail.storage.contract import Store


class AsgiOptions(TypedDict, total=False):
    """The options of `Server.asgi`, which `Server.run("http")` takes as well."""

    path: str
    """Where the endpoint is; WebSocket is at `/ws` below it."""
    sessions: bool
    """Without, clients of the handshake era are served one request at a time, and nothing can be asked of them."""
    json_response: bool
    """Answer with one JSON value always: nothing reaches the client before the answer."""
    always_stream: bool
    """Answer every request of a session with a stream: a client that loses it can take it up from its first moment."""
    store: Store | str | None
    """Where sessions and events are kept: a store, or the path of a SQLite file; without one, in memory."""
    legacy_sse: bool
    """Offer the two endpoints of HTTP+SSE, `/sse` and `/messages`, as well."""
    websocket: bool
    allowed_hosts: Sequence[str]
    """Hosts that requests may name, besides loopback; `*` for any."""
    allowed_origins: Sequence[str]
    """Origins that web pages may come from, besides those of the allowed hosts; `*` for any."""
    cors: bool | Sequence[str]
    """Origins whose pages may read the answers; True for all that are allowed."""
    strict_headers: bool
    """Require the standard headers on revisions of the handshake era too."""
    session_idle: float
    """Seconds after which a session that nobody uses ends."""
    max_sessions: int
    max_sessions_each: int
    """How many sessions one principal may have."""
    max_body: int
    body_seconds: float
    """How long a request's body may take to arrive."""
    poll_seconds: float | None
    """Let go of a stream's connection after so long, and have the client come back, where its revision has polling."""
    health: str | None
    """Where to ask whether the server is well; None for nowhere."""
    resource: str | None
    """The URL that clients know the endpoint by, with authorization behind a proxy; else requests say it."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The options, each with its value."""

    path: str = "/mcp"
    sessions: bool = True
    json_response: bool = False
    always_stream: bool = False
    store: Store | str | None = None
    legacy_sse: bool = True
    websocket: bool = True
    allowed_hosts: Sequence[str] | None = None
    allowed_origins: Sequence[str] | None = None
    cors: bool | Sequence[str] = False
    strict_headers: bool = False
    session_idle: float = 1800
    max_sessions: int = 10_000
    max_sessions_each: int = 1000
    max_body: int = MAX_BODY
    body_seconds: float = 30
    poll_seconds: float | None = None
    health: str | None = "/health"
    resource: str | None = None

    @staticmethod
    def of(options: AsgiOptions) -> Settings:
        """The options with what was left out; LocalError names one that there is not."""
        if unknown := options.keys() - AsgiOptions.__annotations__.keys():
            raise LocalError(f"A server over HTTP has no option {', '.join(sorted(unknown))}")
        settings = Settings(**options)
        if not settings.path.startswith("/"):
            raise LocalError(f"The path of the endpoint begins with a slash, unlike {settings.path!r}")
        return settings
