"""Where a client connects to: a command to run, a URL or socket, or an object in this process."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast, runtime_checkable

from dovetail.protocol.errors import LocalError
from dovetail.transports.base import Channel

from .sockets import ChannelTarget, OwnChannel, TcpTarget, UnixTarget, socket_path

if TYPE_CHECKING:
    from dovetail.transports.http.contract import HttpOptions
    from dovetail.transports.memory import MemoryChannel

    from .http import Credentials, HttpSettings, HttpTarget, WebSocketTarget

logger = logging.getLogger("dovetail")

_END_SECONDS = 10.0
"""How long a closing client waits for a server in memory, which may have a lifespan to leave."""


@runtime_checkable
class Servable(Protocol):
    """Something that serves a client over a channel, as `Server` does."""

    async def serve(self, channel: Channel) -> None:
        """Serve until the client goes."""
        ...


Target: TypeAlias = "str | Sequence[str] | Servable | Channel | CommandTarget"


class CommandTarget:
    """A program that speaks over its stdin and stdout.

    Given to a `Client` as its target, it says more than a command line can: `inherited` is what the program is to have
    of our environment instead of all of it, and `on_stderr` takes the lines that it writes there.
    """

    restartable = True

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        *,
        inherited: Mapping[str, str] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> None:
        self._command = tuple(command)
        self._env = env
        self._cwd = cwd
        self._inherited = inherited
        self._on_stderr = on_stderr
        self.key = (self._command, str(cwd or ""))

    async def connect(self) -> Channel:
        """A channel to a new process; it starts when the channel is opened."""
        from dovetail.transports.process import ProcessChannel

        return ProcessChannel(self._command, self._env, self._cwd, inherited=self._inherited, on_stderr=self._on_stderr)

    async def ended(self) -> None:
        """A process has ended when its channel is closed."""


class MemoryTarget:
    """A server in this process and on this loop."""

    restartable = False

    def __init__(self, server: Servable) -> None:
        self._server = server
        self._serving: set[asyncio.Task[None]] = set()
        self.key = None

    async def connect(self) -> Channel:
        """One end of a channel in memory, with the server at the other."""
        from dovetail.transports.memory import memory_pair

        ours, theirs = memory_pair()
        task = asyncio.get_running_loop().create_task(self._serve(theirs))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return ours

    async def ended(self) -> None:
        """Wait until the server has let go of a channel that was closed."""
        if self._serving:
            await asyncio.wait(self._serving, timeout=_END_SECONDS)

    async def _serve(self, channel: MemoryChannel) -> None:
        try:
            await self._server.serve(channel)
        except Exception as problem:
            logger.exception("The server failed")
            channel.reason = f"the server failed: {type(problem).__name__}: {problem}"
        finally:
            await channel.close()


AnyTarget: TypeAlias = (
    "CommandTarget | MemoryTarget | HttpTarget | WebSocketTarget | UnixTarget | TcpTarget | ChannelTarget"
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def http_settings(
    headers: Mapping[str, str] | None, auth: Credentials | None, options: HttpOptions | None
) -> HttpSettings | None:
    """What a user gave for servers behind a URL, if anything."""
    if headers is None and auth is None and options is None:
        return None
    from .http import HttpSettings

    return HttpSettings(headers, auth, options)


def resolve_target(
    target: Target,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    reach: HttpSettings | None = None,
) -> AnyTarget:
    """Understand what a user gave as the target."""
    found = _address(target, reach) if isinstance(target, str) else None
    if found is not None:
        return found
    if reach is not None:
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
    elif isinstance(target, OwnChannel):
        return ChannelTarget(target)
    else:
        words = _words(target)
    if not words:
        raise LocalError("The command to run is empty")
    return CommandTarget(words, env, cwd)


def _address(target: str, reach: HttpSettings | None) -> AnyTarget | None:
    """A target that is an address and no command."""
    if reach is None and (path := socket_path(target)) is not None:
        return UnixTarget(path)
    scheme = _SCHEME.match(target)
    if scheme is None:
        return None
    kind = scheme[1].lower()
    if kind == "tcp" and reach is None:
        return TcpTarget(target)
    if kind not in ("http", "https", "ws", "wss"):
        given = " with headers or auth" if kind == "tcp" else ""
        raise LocalError(f"{target!r} cannot be reached{given}: http, https, ws, wss, unix and tcp can")
    from .http import HttpSettings, HttpTarget, WebSocketTarget

    how = reach or HttpSettings(None, None, None)
    return HttpTarget(target, how) if kind.startswith("http") else WebSocketTarget(target, how)


def _words(target: object) -> list[str]:
    if isinstance(target, (list, tuple)):
        words = cast("Sequence[object]", target)
        if all(isinstance(word, (str, os.PathLike)) for word in words):
            return [os.fspath(cast("str | os.PathLike[str]", word)) for word in words]
    raise LocalError(
        f"A client connects to a command, as a string or a list of words, to a URL or a Server; not to {target!r}"
    )
