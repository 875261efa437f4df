"""Where a client connects to: a command to run, or a server object in this process."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast, runtime_checkable

from dovetail.protocol.errors import LocalError
from dovetail.transports.base import Channel

if TYPE_CHECKING:
    from dovetail.transports.memory import MemoryChannel

logger = logging.getLogger("dovetail")

_END_SECONDS = 10.0
"""How long a closing client waits for a server in memory, which may have a lifespan to leave."""


@runtime_checkable
class Servable(Protocol):
    """Something that serves a client over a channel, as `Server` does."""

    async def serve(self, channel: Channel) -> None:
        """Serve until the client goes."""
        ...


Target: TypeAlias = "str | Sequence[str] | Servable"


class CommandTarget:
    """A program that speaks over its stdin and stdout."""

    restartable = True

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None
    ) -> None:
        self._command = tuple(command)
        self._env = env
        self._cwd = cwd
        self.key = (self._command, str(cwd or ""))

    async def connect(self) -> Channel:
        """A channel to a new process; it starts when the channel is opened."""
        from dovetail.transports.process import ProcessChannel

        return ProcessChannel(self._command, self._env, self._cwd)

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


AnyTarget: TypeAlias = CommandTarget | MemoryTarget


def find_target(target: Target, env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None) -> AnyTarget:
    """Understand what a user gave as the target."""
    if isinstance(target, str):
        if "://" in target.split(" ", 1)[0]:
            raise LocalError(f"Only commands and server objects can be reached so far, not {target!r}")
        try:
            words = shlex.split(target)
        except ValueError as problem:
            raise LocalError(f"The command {target!r} cannot be read: {problem}") from None
    elif isinstance(target, Servable):
        return MemoryTarget(target)
    else:
        words = _words(target)
    if not words:
        raise LocalError("The command to run is empty")
    return CommandTarget(words, env, cwd)


def _words(target: object) -> list[str]:
    if isinstance(target, (list, tuple)):
        words = cast("Sequence[object]", target)
        if all(isinstance(word, (str, os.PathLike)) for word in words):
            return [os.fspath(cast("str | os.PathLike[str]", word)) for word in words]
    raise LocalError(
        f"A client connects to a command, as a string or a list of words, or to a Server; not to {target!r}"
    )
