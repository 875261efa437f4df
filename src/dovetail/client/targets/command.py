"""Servers that are programs: started by the client, and spoken to over their stdin and stdout."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from dovetail.transports.base import Channel

from .contract import ServerTarget


class CommandTarget(ServerTarget):
    """A program that speaks over its stdin and stdout.

    Given to a `Client` as its target, it has options that a command line has not: `inherited` is the environment that
    the program inherits instead of all of ours, and `on_stderr` is called with the lines that it writes to stderr.
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
        """A channel to a new process, which starts when the channel is opened."""
        from dovetail.transports.process import ProcessChannel

        return ProcessChannel(self._command, self._env, self._cwd, inherited=self._inherited, on_stderr=self._on_stderr)
