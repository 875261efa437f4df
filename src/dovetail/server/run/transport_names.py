"""Names of transports in `server.run`, with those that other libraries use for them."""

from __future__ import annotations

from collections.abc import Iterable
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

    Raises LocalError for an unknown name, and for options that the transport does not have.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LocalError(
            "server.run takes the name of a transport, not streams: write server.run(), or await server.run_async() "
            "on a running event loop, for stdio"
        )
    if name == "sse" and not options.get("legacy_sse", True):
        raise LocalError('run("sse") serves HTTP with the endpoints of HTTP+SSE; without them it is run("http")')
    transport = _ALIASES.get(name, name)
    takes = _http_options() if transport == "http" else _OPTIONS.get(transport)
    if takes is None:
        raise LocalError(f"There is no transport {name!r}; there are stdio, http, unix and tcp{_near(name)}")
    if unknown := options.keys() - set(takes):
        from dovetail.server.other_names import HTTP_OPTIONS, unknown_options

        title, others = ("HTTP", HTTP_OPTIONS) if transport == "http" else (transport, dict[str, str]())
        raise LocalError(unknown_options(f"A server over {title}", unknown, others, takes))
    return cast(Transport, transport)


def _http_options() -> Iterable[str]:
    from .http import RunOptions

    return RunOptions.__annotations__


def _near(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, [*_OPTIONS, *_ALIASES.values(), *_ALIASES], 1)
    return f"; did you mean {near[0]}?" if near else ""
