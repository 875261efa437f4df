"""The options of a server over HTTP: `Server.asgi(…)` and `Server.run("http", …)`."""

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
    """The path of the endpoint; WebSockets are served at `/ws` below it."""
    sessions: bool
    """If False, the handshake era is served without sessions, and handlers cannot send requests to the client."""
    json_response: bool
    """Always respond with one JSON value, so that no message reaches the client before the answer."""
    always_stream: bool
    """Respond to every request of a session with an event stream, which clients can resume from its first event."""
    store: Store | str | None
    """The store of sessions and events, or the path of a SQLite file; in memory by default."""
    legacy_sse: bool
    """Serve the two endpoints of HTTP+SSE too, `/sse` and `/messages`."""
    websocket: bool
    allowed_hosts: Sequence[str]
    """Accepted values of the Host header, besides loopback; `*` for any."""
    allowed_origins: Sequence[str]
    """Accepted values of the Origin header, besides the allowed hosts; `*` for any."""
    cors: bool | Sequence[str]
    """Origins whose pages may read responses; True for all accepted ones."""
    strict_headers: bool
    """Require the standard headers on revisions of the handshake era too."""
    session_idle: float
    """Seconds after which an unused session ends."""
    max_sessions: int
    max_sessions_each: int
    """The maximum number of sessions of one principal."""
    max_body: int
    body_seconds: float
    """The time in which a request's body must arrive."""
    poll_seconds: float | None
    """Close an event stream's connection after this time; the client resumes it, where its revision has polling."""
    health: str | None
    """The path of the health endpoint; None for none."""
    resource: str | None
    """The public URL of the endpoint, for authorization behind a proxy; by default that of the request."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The options with their defaults."""

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
        """The settings for some options; LocalError for an unknown one."""
        if unknown := options.keys() - AsgiOptions.__annotations__.keys():
            raise LocalError(f"A server over HTTP has no option {', '.join(sorted(unknown))}")
        settings = Settings(**options)
        if not settings.path.startswith("/"):
            raise LocalError(f"The path of the endpoint begins with a slash, not as in {settings.path!r}")
        return settings
