"""Target resolution: from what a caller gives to `Client` to the kind of server that it means."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from dovetail.protocol.errors import LocalError
from dovetail.transports.base import Channel

from .command import CommandTarget
from .contract import ServerTarget
from .memory import ChannelTarget, MemoryTarget, Servable, UserChannel
from .sockets import TcpTarget, UnixTarget, socket_path

if TYPE_CHECKING:
    from dovetail.transports.http.contract import HttpOptions

    from .http import Credentials, HttpSettings

Target: TypeAlias = "str | Sequence[str] | Servable | Channel | CommandTarget"
"""A command, a URL, the address of a socket, a server in this process, or a channel."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def http_settings(
    headers: Mapping[str, str] | None, auth: Credentials | None, options: HttpOptions | None
) -> HttpSettings | None:
    """The settings for servers behind a URL; None where the caller gave none."""
    if headers is None and auth is None and options is None:
        return None
    from .http import HttpSettings

    return HttpSettings(headers, auth, options)


def resolve_target(
    target: Target,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    settings: HttpSettings | None = None,
) -> ServerTarget:
    """The server that a caller means; raises `LocalError` for what is none."""
    address = _resolve_address(target, settings) if isinstance(target, str) else None
    if address is not None:
        return address
    if settings is not None:
        raise LocalError("headers, auth and http are for servers behind a URL")
    if isinstance(target, str):
        try:
            words = shlex.split(target)
        except ValueError as problem:
            raise LocalError(f"The command {target!r} cannot be read: {problem}") from None
    elif isinstance(target, CommandTarget):
        return target
    elif isinstance(target, Servable):
        return MemoryTarget(target)
    elif isinstance(target, UserChannel):
        return ChannelTarget(target)
    else:
        words = _command_words(target)
    if not words:
        raise LocalError("The command to run is empty")
    return CommandTarget(words, env, cwd)


def _resolve_address(target: str, settings: HttpSettings | None) -> ServerTarget | None:
    """The server at an address; None for a command."""
    if settings is None and (path := socket_path(target)) is not None:
        return UnixTarget(path)
    scheme = _SCHEME.match(target)
    if scheme is None:
        return None
    kind = scheme[1].lower()
    if kind == "tcp" and settings is None:
        return TcpTarget(target)
    if kind not in ("http", "https", "ws", "wss"):
        given = " with headers or auth" if kind == "tcp" else ""
        raise LocalError(f"{target!r} cannot be reached{given}: http, https, ws, wss, unix and tcp can")
    from .http import HttpSettings, HttpTarget, WebSocketTarget

    settings = settings or HttpSettings(None, None, None)
    return HttpTarget(target, settings) if kind.startswith("http") else WebSocketTarget(target, settings)


def _command_words(target: object) -> list[str]:
    if isinstance(target, (list, tuple)):
        words = cast("Sequence[object]", target)
        if all(isinstance(word, (str, os.PathLike)) for word in words):
            return [os.fspath(cast("str | os.PathLike[str]", word)) for word in words]
    raise LocalError(
        f"A client connects to a command, as a string or a list of words, to a URL or a Server; not to {target!r}"
    )
