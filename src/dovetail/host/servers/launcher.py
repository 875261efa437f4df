"""Launcher: obtains approval to start a server, and builds the client for it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from dovetail.client.targets.environment import shared_environment
from dovetail.client.targets.resolve import Target
from dovetail.client.targets.secrets import Secrets
from dovetail.config.entries import ServerEntry
from dovetail.config.launch_spec import LaunchSpec
from dovetail.host.consent.consent import Consent
from dovetail.host.consent.server_requests import ServerRequestHandlers
from dovetail.host.limits import Limits
from dovetail.policy.actions import Action
from dovetail.policy.approval_questions import LaunchQuestion
from dovetail.policy.approvals import Approvals
from dovetail.policy.launch import launch_changes, redacted_spec
from dovetail.policy.launch_files import resolve_launch
from dovetail.policy.launch_target import command_target, loggable_spec
from dovetail.protocol.errors import ConnectionLost, LocalError
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.text.redact import is_secret

from .bounded_client import BoundedClient
from .server_log import ServerLog

if TYPE_CHECKING:
    from dovetail.client.targets.http import Credentials

OnAuth: TypeAlias = "Callable[[ServerEntry], Credentials | None]"
"""The credentials for a server behind a URL, such as an `OAuth`; None for none."""


class Launcher:
    """Approved launches: for always in the user's folder, or for as long as the host runs."""

    def __init__(
        self,
        consent: Consent,
        approvals: Approvals,
        secrets: Secrets | None,
        auth: OnAuth | None,
        limits: Limits,
        thread_pool: ThreadPool,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._consent = consent
        self._approvals = approvals
        self._secrets = secrets
        self._auth = auth
        self._limits = limits
        self._thread_pool = thread_pool
        self._environ = environ
        self._session: dict[str, str] = {}
        self._admitted: dict[str, tuple[LaunchSpec, LaunchSpec]] = {}
        """By key: the launch of the configuration, and what it was resolved to when it was approved."""

    async def admit(self, entry: ServerEntry) -> None:
        """Ask, unless exactly this launch was approved before; raises `Refused`."""
        action = Action(kind="launch", server=entry.key, launch=spec_of(entry).digest)
        spec = await self._resolved(spec_of(entry))
        self._admitted.pop(entry.key, None)
        if self._approved(entry.key, spec):
            decision = self._consent.decide(action)
            if decision.verdict == "deny":
                raise await self._consent.refuse(
                    action, "policy", decision.rule, f"The policy keeps {entry.key!r} from starting"
                )
            await self._consent.record("launch", action, "person", "approved before", spec=loggable_spec(spec))
            self._admitted[entry.key] = (spec_of(entry), spec)
            return
        before = self._approvals.before(entry.key, spec)
        permission = await self._consent.authorize(
            action,
            lambda _: LaunchQuestion(server=entry.key, spec=spec, origin=str(entry.origin), before=before),
        )
        await self._consent.record(
            "launch", action, permission.by, permission.rule, spec=loggable_spec(spec), origin=str(entry.origin)
        )
        if permission.by == "person":
            self._session[entry.key] = spec.digest
            if permission.yes.remember == "always":
                await self._thread_pool.run(functools.partial(self._approvals.approve, entry.key, spec))
        self._admitted[entry.key] = (spec_of(entry), spec)

    def trusted(self, entry: ServerEntry) -> bool:
        """True if the user believes what this server says of its tools."""
        configured, spec = self._admitted.get(entry.key, (None, None))
        return spec is not None and configured == entry.spec and self._approvals.trusted(entry.key, spec)

    async def trust(self, entry: ServerEntry, trusted: bool) -> None:
        """Believe a server, or not; who believes it lets it start too."""
        configured, spec = self._admitted.get(entry.key, (None, None))
        if spec is None or configured != entry.spec:
            spec = await self._resolved(spec_of(entry))

        def change() -> None:
            if trusted and not self._approvals.approved(entry.key, spec):
                self._approvals.approve(entry.key, spec)
            self._approvals.trust(entry.key, spec, trusted)

        action = Action(kind="launch", server=entry.key, launch=spec_of(entry).digest)
        await self._consent.record("config", action, "person", "", trusted=trusted)
        await self._thread_pool.run(change)

    async def connect(
        self, entry: ServerEntry, log: ServerLog, handlers: ServerRequestHandlers, report: Callable[[str], None]
    ) -> BoundedClient:
        """A client for a server, not open yet; secrets are filled in only now."""
        spec = spec_of(entry)
        if entry.inputs:
            if self._secrets is None:
                self._secrets = Secrets()
            spec = await self._secrets.fill(entry)
            secrets = [await self._secrets.known(wanted) for wanted in entry.inputs if wanted.secret]
        else:
            secrets = []
        await self._check_unchanged(entry)
        given = {**spec.env, **spec.headers}
        secrets += [value for name, value in given.items() if is_secret(name)]
        self._consent.hide(secrets)
        log.hide(secrets)
        options: dict[str, Any] = {
            "timeout": self._limits.call_seconds,
            "trace": log.trace,
            "on_log": log.log,
            **handlers.options(),
        }
        if spec.kind != "stdio":
            named = {name.lower() for name in spec.headers}
            auth = None if self._auth is None or "authorization" in named else self._auth(entry)
            options |= {"headers": spec.headers or None, "auth": auth}
        return BoundedClient(self._target(spec, log), self._limits, report, **options)

    def _target(self, spec: LaunchSpec, log: ServerLog) -> Target:
        if spec.kind != "stdio":
            if spec.url is None:
                raise LocalError("A server that is reached over the network needs a URL")
            return spec.url
        if not spec.command:
            raise LocalError("A server that is started needs a command")
        return command_target(spec, shared_environment(self._environ), log.stderr, log.server)

    async def _resolved(self, spec: LaunchSpec) -> LaunchSpec:
        inherited = shared_environment(self._environ)
        return await self._thread_pool.run(lambda: resolve_launch(spec, inherited))

    async def _check_unchanged(self, entry: ServerEntry) -> None:
        """See that what is started is what was approved: the user may have taken minutes to answer."""
        configured, approved = self._admitted.get(entry.key, (None, None))
        if approved is None or configured != entry.spec:
            return
        now = await self._resolved(spec_of(entry))
        if now.digest != approved.digest:
            what = " ".join(launch_changes(redacted_spec(approved), now))
            raise ConnectionLost(f"It has changed since it was approved, and is not started. {what}")

    def _approved(self, key: str, spec: LaunchSpec) -> bool:
        return self._session.get(key) == spec.digest or self._approvals.approved(key, spec)


def spec_of(entry: ServerEntry) -> LaunchSpec:
    """The launch of a server; `LocalError` where its entry has none."""
    if entry.spec is None:
        raise LocalError(entry.problem or f"{entry.origin}: {entry.key!r} does not say how to reach it")
    return entry.spec
