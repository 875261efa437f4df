"""Launches: the servers of a configuration file as targets, started only if their launch was approved."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from dovetail.client.targets.environment import shared_environment
from dovetail.client.targets.http import HttpSettings
from dovetail.client.targets.resolve import web_target
from dovetail.client.targets.secrets import Secrets
from dovetail.config.files import home_of
from dovetail.config.launch_spec import LaunchSpec
from dovetail.config.variables import UnresolvedVariable, VariableScope, expand, input_names
from dovetail.policy.approvals import Approvals
from dovetail.policy.launch_files import resolve_launch
from dovetail.policy.launch_target import command_target
from dovetail.protocol.errors import LocalError, Refused

if TYPE_CHECKING:
    from dovetail.client.targets.contract import ServerTarget
    from dovetail.config.entries import Input, ServerEntry
    from dovetail.transports.http.contract import Auth

logger = logging.getLogger("dovetail")


def approve_command(file: str, *keys: str) -> str:
    """The command line that approves the launches of servers of a file."""
    # A key of a file that nobody has reviewed may look like an option.
    dashes = ["--"] if any(key.startswith("-") for key in keys) else []
    return shlex.join(["dovetail", "approve", file, *dashes, *keys])


class Launches:
    """Approved launches of configured servers.

    A launch counts as approved if the user has approved exactly it, in `dovetail approve` or a host, or if it is
    trusted: as it stood when the gateway was started with `--trust`. One that has changed since is not started.
    """

    def __init__(
        self,
        approvals: Approvals | None = None,
        secrets: Secrets | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._approvals = Approvals() if approvals is None else approvals
        self._secrets = Secrets() if secrets is None else secrets
        self._environ = environ
        self._trusted: dict[str, str] = {}

    def trust(self, entries: tuple[ServerEntry, ...]) -> None:
        """Approve the launches of these entries as they are now, for as long as the gateway runs."""
        for entry in entries:
            if entry.spec is not None:
                self._trusted[entry.key] = self._resolve(entry.spec).digest

    def unapproved(self, entries: Sequence[ServerEntry]) -> list[ServerEntry]:
        """The entries whose launches, as they are now, would not be started."""
        return [
            entry for entry in entries if entry.spec and not self._is_approved(entry.key, self._resolve(entry.spec))
        ]

    def _is_approved(self, key: str, spec: LaunchSpec) -> bool:
        return self._trusted.get(key) == spec.digest or self._approvals.approved(key, spec)

    async def fill_secret(self, entry: ServerEntry, inputs: Sequence[Input], text: str) -> str:
        """A secret in the settings of a server, with `${input:…}` and `${env:…}` filled in."""
        around = VariableScope(self._environ, home_of(self._environ), os.getcwd())
        try:
            expanded = expand(text, around)
        except UnresolvedVariable as problem:
            raise LocalError(f"a secret in its settings is not known: {problem}") from None
        wanted = input_names(expanded)
        known = {one.id: one for one in inputs}
        if unknown := next((name for name in wanted if name not in known), None):
            raise LocalError(f"its settings name the input {unknown!r}, which the configuration does not have")
        # As a header of an entry of its own, so that it is asked for and kept as the secrets of a launch are.
        holder = msgspec.structs.replace(
            entry,
            spec=LaunchSpec(kind="http", headers={"secret": expanded}),
            inputs=tuple(known[name] for name in dict.fromkeys(wanted)),
            problem=None,
        )
        return (await self._secrets.fill(holder)).headers["secret"]

    async def target(self, entry: ServerEntry, auth: Auth | None = None) -> ServerTarget:
        """The target of a server; raises `Refused` if its launch was not approved."""
        if entry.spec is None:
            raise LocalError(f"it cannot be started: {entry.problem}")
        spec = await asyncio.to_thread(self._resolve, entry.spec)
        if not self._is_approved(entry.key, spec):
            changed = entry.key in self._trusted or self._approvals.before(entry.key, spec) is not None
            why = "its launch has changed since it was approved" if changed else "its launch was not approved"
            command = approve_command(entry.origin.file, entry.key)
            raise Refused(f"{why} ({entry.origin}); approve it with `{command}`")
        filled = await self._secrets.fill(entry)
        if filled.url is not None:
            return web_target(filled.url, HttpSettings(filled.headers, auth or False, None))
        if auth is not None:
            raise LocalError("credentials are for servers behind a URL")

        def log_line(line: str) -> None:
            logger.info("[%s] %s", entry.key, line.rstrip("\n"))

        return command_target(filled, shared_environment(self._environ), log_line, entry.key)

    def _resolve(self, spec: LaunchSpec) -> LaunchSpec:
        return resolve_launch(spec, shared_environment(self._environ))
