"""Values for `${input:id}`: asked for once, stored in the keyring, filled in right before a launch."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from dovetail.client.auth.token_store import TokenStore, default_tokens
from dovetail.config.entries import IN_CODE, Input, ServerEntry
from dovetail.config.files import home_of, user_files
from dovetail.config.launch_spec import LaunchSpec, fill_inputs
from dovetail.protocol.errors import LocalError

OnInput: TypeAlias = "Callable[[str, Input], str | Awaitable[str | None] | None]"
"""Asks the user for a value: the server's key, and what is wanted; None where they give none."""

FILES_VARIABLE = "DOVETAIL_INPUT_FILES"
"""Environment variable with the absolute paths of files whose inputs other variables may fill."""
PURPOSE = "inputs"
"""The store of these values among the user's."""


class MissingSecret(LocalError):
    """Nobody has given a value that a server needs; `input` says which."""

    def __init__(self, server: str, wanted: Input) -> None:
        about = f" ({wanted.description})" if wanted.description else ""
        super().__init__(
            f"The server {server!r} needs a value for {wanted.id!r}{about}, see {wanted.origin}: "
            f"`dovetail enable {server} --ask` asks for it, or set {variables_for(wanted)}"
        )
        self.server = server
        self.input = wanted


class Secrets:
    """Values of inputs, by the file that names them: another file's input of the same name is another one.

    A variable `DOVETAIL_INPUT_…` goes before what is kept, for machines where nobody can be asked. It counts for the
    user's own files and for those that `DOVETAIL_INPUT_FILES` lists: any other file could name an input as another
    one does, and be given its value.
    """

    def __init__(
        self,
        store: TokenStore | None = None,
        *,
        on_input: OnInput | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._store = default_tokens(PURPOSE, environ) if store is None else store
        self._on_input = on_input
        self._environ = environ
        self._turns: dict[str, asyncio.Lock] = {}

    async def fill(self, entry: ServerEntry) -> LaunchSpec:
        """The launch of a server with every input filled in; `MissingSecret` where one is not known."""
        if entry.spec is None:
            raise LocalError(f"The server {entry.key!r} cannot be started: {entry.problem}")
        values = {wanted.id: await self._value(entry.key, wanted) for wanted in entry.inputs}
        return fill_inputs(entry.spec, values)

    async def known(self, wanted: Input) -> str | None:
        """The value of an input, if there is one without asking."""
        named = self._environ.get(variable_for(wanted)) if _is_filled_by_variable(wanted, self._environ) else None
        if named is not None:
            if not _fits(wanted, named):
                raise LocalError(f"{variable_for(wanted)} is to be one of {', '.join(wanted.options)}")
            return named
        kept = await self._store.load(_name(wanted))
        value = None if kept is None else kept.decode()
        return value if value is not None and _fits(wanted, value) else None

    async def give(self, wanted: Input, value: str | None) -> None:
        """Keep a value for an input, or none any more."""
        if value is not None and not _fits(wanted, value):
            raise LocalError(f"{wanted.id!r} is to be one of {', '.join(wanted.options)}")
        await self._store.save(_name(wanted), None if value is None else value.encode())

    async def ask(self, server: str, wanted: Input) -> str | None:
        """Ask the user for a value and keep it; None where nobody can be asked, or gives one."""
        if self._on_input is None:
            return None
        answer = self._on_input(server, wanted)
        value = await answer if inspect.isawaitable(answer) else answer
        if value is not None:
            await self.give(wanted, value)
        return value

    async def _value(self, server: str, wanted: Input) -> str:
        # Servers start side by side; the second one that wants the same waits for the answer to the first.
        async with self._turns.setdefault(_name(wanted), asyncio.Lock()):
            value = await self.known(wanted)
            if value is None:
                value = await self.ask(server, wanted)
        value = wanted.default if value is None else value
        if value is not None:
            return value
        raise MissingSecret(server, wanted)


def variable_for(wanted: Input) -> str:
    """The environment variable that gives an input its value."""
    return "DOVETAIL_INPUT_" + re.sub(r"[^A-Z0-9]+", "_", wanted.id.upper())


def variables_for(wanted: Input, environ: Mapping[str, str] = os.environ) -> str:
    """The variables to set for an input, in words."""
    if _is_filled_by_variable(wanted, environ):
        return variable_for(wanted)
    return f"{variable_for(wanted)} and {FILES_VARIABLE}={wanted.origin.file}"


def _is_filled_by_variable(wanted: Input, environ: Mapping[str, str]) -> bool:
    if wanted.origin == IN_CODE:
        return True
    listed = [path for path in environ.get(FILES_VARIABLE, "").split(os.pathsep) if os.path.isabs(path)]
    own = (str(each.path) for each in user_files(Path(home_of(environ)), environ=environ))
    file = os.path.realpath(wanted.origin.file)
    return any(os.path.realpath(path) == file for path in (*listed, *own))


def _name(wanted: Input) -> str:
    # By any of its paths it is the same file.
    return f"{wanted.id} {os.path.realpath(wanted.origin.file)}"


def _fits(wanted: Input, value: str) -> bool:
    return not wanted.options or value in wanted.options
