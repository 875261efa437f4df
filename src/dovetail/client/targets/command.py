"""Servers that are programs: started by the client, and spoken to over their stdin and stdout."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence

from dovetail.text.redact import redact_text
from dovetail.transports.base import MAX_RECEIVED, Channel

from .contract import ServerTarget
from .environment import shared_environment

_LABEL_CHARS = 200
_NAME_CHARS = 80
_OUR_RUN = ("-m", "dovetail.cli", "run")
"""The words before the file in the command that serves a Python file."""


class CommandTarget(ServerTarget):
    """A program that speaks over its stdin and stdout.

    It inherits the variables of our environment that programs need to run, all of them with `inherit_env`, or just
    those of `inherited`; `env` is added to them. `on_stderr` is called with each line that it writes to stderr;
    otherwise they go to our stderr, those from before the handshake only if it fails. Log messages call it `name`.
    """

    restartable = True

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        *,
        inherit_env: bool = False,
        inherited: Mapping[str, str] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        name: str | None = None,
    ) -> None:
        self._command = tuple(command)
        self._env = env
        self._cwd = cwd
        self._inherits_all = inherit_env
        self._inherited = inherited
        self._on_stderr = on_stderr
        self.label = f"The server {(name or redact_text(shlex.join(self._command)))[:_LABEL_CHARS]!r}"
        self.key = (self._command, str(cwd or ""))

    async def connect(self, max_message_bytes: int = MAX_RECEIVED) -> Channel:
        """A channel to a new process, which starts when the channel is opened."""
        from dovetail.transports.process import ProcessChannel

        if self._inherits_all:
            inherited = os.environ
        else:
            inherited = shared_environment(os.environ) if self._inherited is None else self._inherited
        return ProcessChannel(
            self._command,
            {**inherited, **(self._env or {})},
            self._cwd,
            max_message_bytes,
            on_stderr=self._on_stderr,
            hold_stderr=self._on_stderr is None,
            name=program_name(self._command),
        )


def program_name(command: Sequence[str]) -> str:
    """A short name of a command for errors: its words without the folder of the program, or the file that we run."""
    for index in range(len(command) - len(_OUR_RUN)):
        if tuple(command[index : index + len(_OUR_RUN)]) == _OUR_RUN:
            return os.path.basename(command[index + len(_OUR_RUN)])
    text = redact_text(shlex.join([os.path.basename(command[0]) or command[0], *command[1:]]))
    return text if len(text) <= _NAME_CHARS else text[: _NAME_CHARS - 1] + "…"
