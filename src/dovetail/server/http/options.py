"""The options of a server over HTTP: `Server.asgi(…)` and `Server.run("http", …)`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypedDict

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.protocol.request_guard import MAX_BODY
from dovetail.server.replicas.shared_store import TaskPlace, check_task_place, given_store
from dovetail.storage.contract import Store
from dovetail.storage.urls import StoreUrl


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
    store: Store | str | os.PathLike[str] | None
    """The store of sessions and events, or its URL, or the path of a SQLite file; by default that of `DOVETAIL_STORE`,
    else in memory."""
    tasks: TaskPlace
    """The processes that run tasks: "here", or "workers" that share the store (`dovetail worker`)."""
    keys: Sequence[bytes]
    """Keys of 32 bytes that seal states and sign cursors, such as from a vault: the first seals, all open. By default
    they are made, and kept in the store if there is one that is shared."""
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
    """The maximum number of sessions of one principal, or of one address if there is no authentication."""
    max_connections: int
    """The maximum number of WebSockets and connections of HTTP+SSE."""
    max_connections_each: int
    """The same for one principal, or one address."""
    max_streams: int
    """The maximum number of open streams for messages that belong to no call: subscriptions and streams of sessions."""
    max_streams_each: int
    """The same for one principal, or one address."""
    trusted_proxies: Sequence[str]
    """Proxies whose `X-Forwarded-For` names the client: addresses, networks, `unix`; by default those on loopback."""
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
    store: Store | StoreUrl | None = None
    tasks: TaskPlace = "here"
    keys: Sequence[bytes] = ()
    legacy_sse: bool = True
    websocket: bool = True
    allowed_hosts: Sequence[str] | None = None
    allowed_origins: Sequence[str] | None = None
    cors: bool | Sequence[str] = False
    strict_headers: bool = False
    session_idle: float = 1800
    max_sessions: int = 10_000
    max_sessions_each: int = 1000
    max_connections: int = 1000
    max_connections_each: int = 250
    max_streams: int = 10_000
    max_streams_each: int = 1000
    trusted_proxies: Sequence[str] | None = None
    max_body: int = MAX_BODY
    body_seconds: float = 30
    poll_seconds: float | None = None
    health: str | None = "/health"
    resource: str | None = None

    @staticmethod
    def of(options: AsgiOptions) -> Settings:
        """The settings for some options; LocalError for an unknown one."""
        if unknown := options.keys() - AsgiOptions.__annotations__.keys():
            from dovetail.server.other_names import HTTP_OPTIONS, unknown_options

            raise LocalError(unknown_options("A server over HTTP", unknown, HTTP_OPTIONS, AsgiOptions.__annotations__))
        store = given_store(options)
        check_task_place(options.get("tasks", "here"), store)
        values: dict[str, Any] = {**options, "store": store}
        settings = Settings(**values)
        if not settings.path.startswith("/"):
            raise LocalError(f"The path of the endpoint begins with a slash, not as in {settings.path!r}")
        return settings
