"""Names of transports in `server.run`, with those that other libraries use for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from dovetail.protocol.errors import LocalError

if TYPE_CHECKING:
    from .http import RunOptions

Transport: TypeAlias = Literal["stdio", "http", "unix", "tcp"]

_OPTIONS: dict[str, tuple[str, ...]] = {
    "stdio": ("store", "tasks"),
    "unix": ("path", "store", "tasks"),
    "tcp": ("host", "port", "store", "tasks"),
}
_ALIASES = {"streamable-http": "http", "streamable_http": "http", "sse": "http"}


def resolve_transport(name: str, options: RunOptions) -> Transport:
    """The transport with a name, or with the name that another library has for it.

    Raises LocalError for an unknown name, and for options that the transport does not have; those of HTTP are checked
    where they are read.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LocalError(
            "server.run takes the name of a transport, not streams: write server.run(), or await server.run_async() "
            "on a running event loop, for stdio"
        )
    if name == "sse" and not options.get("legacy_sse", True):
        raise LocalError('run("sse") serves HTTP with the endpoints of HTTP+SSE; without them it is run("http")')
    transport = _ALIASES.get(name, name)
    if transport == "http":
        return "http"
    takes = _OPTIONS.get(transport)
    if takes is None:
        raise LocalError(f"There is no transport {name!r}; there are stdio, http, unix and tcp")
    if unknown := options.keys() - set(takes):
        raise LocalError(f"A server over {transport} has no option {', '.join(sorted(unknown))}")
    return cast(Transport, transport)
