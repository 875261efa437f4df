"""Approval of a configured server that a command starts: the user's own files are trusted, a project's are not."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Literal

from dovetail.cli.exit_status import CommandFailed

if TYPE_CHECKING:
    from dovetail.cli.options.terminal_prompts import TerminalPrompts
    from dovetail.config.entries import ServerEntry
    from dovetail.config.launch_spec import LaunchSpec

    from .configured_servers import ConfiguredServer


def resolved_launch(spec: LaunchSpec) -> LaunchSpec:
    """The launch as it would run now: with its program and the content of its files."""
    from dovetail.client.targets.environment import shared_environment
    from dovetail.policy.launch_files import resolve_launch

    return resolve_launch(spec, shared_environment(os.environ))


def approval_state(server: ConfiguredServer) -> Literal["approved", "changed", "not approved"] | None:
    """The approval of the launch, as text; None where there is nothing to approve."""
    from dovetail.policy.approvals import Approvals

    entry, approvals = server.entry, Approvals()
    if entry.spec is None:
        return None
    spec = resolved_launch(entry.spec)
    if approvals.approved(entry.key, spec):
        return "approved"
    return "changed" if approvals.before(entry.key, spec) is not None else "not approved"


async def approve_launch(server: ConfiguredServer, prompts: TerminalPrompts, *, yes: bool) -> None:
    """Raise unless the server may start; a launch of a project's file is asked about once."""
    from dovetail.policy.approvals import Approvals

    entry = server.entry
    if entry.spec is None:
        raise CommandFailed("usage", f"The server {entry.key!r} cannot be started: {entry.problem}")
    if not entry.enabled:
        raise CommandFailed("refused", f"{entry.key!r} is disabled in {server.file}: `dovetail enable {entry.key}`")
    spec = resolved_launch(entry.spec)
    approvals = Approvals()
    if server.scope == "user":
        reason = "named on the command line"
    elif approvals.approved(entry.key, spec):
        reason = "approved before"
    elif yes:
        reason = "started with --yes"
    else:
        await _ask(entry, spec, prompts)
        if resolved_launch(entry.spec).digest != spec.digest:
            raise CommandFailed("refused", f"{entry.key!r} has changed since you were asked, and is not started")
        approvals.approve(entry.key, spec)
        reason = "approved"
    _record(server, spec, reason)


async def _ask(entry: ServerEntry, spec: LaunchSpec, prompts: TerminalPrompts) -> None:
    from dovetail.config.launch_spec import without_secrets
    from dovetail.text.redact import redact_text

    what = redact_text(spec.url) if spec.url is not None else shlex.join(without_secrets(spec.command))
    lines = [f"The server {entry.key!r} of {entry.origin} was not approved yet. It would {_verb(spec)}", f"  {what}"]
    lines += [f"  in {spec.cwd}"] if spec.cwd is not None else []
    lines += [f"  with {', '.join(sorted([*spec.env, *spec.headers]))}"] if spec.env or spec.headers else []
    if not prompts.available:
        raise CommandFailed(
            "refused",
            "\n".join([*lines, "Approve it at a terminal, in this command or in `dovetail host`, or pass --yes."]),
        )
    if not await prompts.confirm(f"{'Connect' if spec.url else 'Start'} it, now and in future?", lines):
        raise CommandFailed("refused", f"{entry.key!r} was not started")


def _verb(spec: LaunchSpec) -> str:
    return "connect to" if spec.url is not None else "run"


def _record(server: ConfiguredServer, spec: LaunchSpec, reason: str) -> None:
    """Check the policy, and append the launch to the audit log."""
    from pathlib import Path

    from dovetail.policy.actions import Action
    from dovetail.policy.audit.log import Audit
    from dovetail.policy.launch_target import loggable_spec
    from dovetail.policy.policy_file import build_policy

    entry = server.entry
    assert entry.spec is not None
    project = Path(server.file).parent if server.scope == "project" else None
    decision = build_policy(project=project).decide(Action(kind="launch", server=entry.key, launch=entry.spec.digest))
    with Audit() as audit:
        if decision.verdict == "deny":
            audit.write("refusal", server=entry.key, by="policy", rule=decision.rule, kind="launch")
            raise CommandFailed("refused", f"The policy forbids starting {entry.key!r} ({decision.rule})")
        audit.write("launch", server=entry.key, by="person", rule=reason, kind="launch", spec=loggable_spec(spec))
