"""`dovetail lock [FILE…]` and `dovetail lock --check [FILE…]`."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.cli import output
from dovetail.cli.exit_status import FAILED, OK, UNREACHABLE, USAGE, CommandFailed
from dovetail.cli.options.client_options import add_format_option
from dovetail.cli.options.host_options import config_files
from dovetail.cli.parser import UsageError

if TYPE_CHECKING:
    from dovetail.config.entries import ServerEntry
    from dovetail.config.launch_spec import LaunchSpec
    from dovetail.config.reader import Config
    from dovetail.host.servers.definition_probe import ProbedDefinitions
    from dovetail.policy.definitions import Definition
    from dovetail.policy.lockfile import Difference, Lock, LockFile
    from dovetail.policy.review import Finding
    from dovetail.policy.user_decisions import AcceptedWarnings


def configure_lock(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="a file that names servers (default: the project's, and your own)"
    )
    parser.add_argument("--check", action="store_true", help="compare the servers with mcp.lock and change nothing")
    parser.add_argument("--server", action="append", default=[], metavar="KEY", help="only this server")
    parser.add_argument("--yes", action="store_true", help="start servers that were not approved yet (for CI)")
    parser.add_argument("--accept", action="store_true", help="also accept definitions that look suspicious")
    add_format_option(parser)
    parser.epilog = "The lockfile, mcp.lock, is in the folder of the first FILE."


def run_lock(options: argparse.Namespace) -> int:
    """Query the servers, then write the lockfile or compare with it."""
    from dovetail.config.reader import read_configs
    from dovetail.policy.lockfile import NAME, LockFile

    files = config_files(options.files)
    config = read_configs(files)
    file = LockFile(Path(files[0]).parent / NAME)
    lock = file.read()
    if options.check and lock is None:
        raise CommandFailed("not_found", f"There is no {file.path}; `dovetail lock` writes it")
    entries = _entries(config, options)
    _audit_launches(entries, options, Path(files[0]).parent)
    probed = asyncio.run(_probe(entries))
    if options.check:
        assert lock is not None
        return _check(options, config, lock, file, probed)
    return _write(options, config, file, probed)


def _entries(config: Config, options: argparse.Namespace) -> list[ServerEntry]:
    from dovetail.policy.approvals import Approvals

    keys = {entry.key for entry in config.entries}
    unknown = next((key for key in options.server if key not in keys), None)
    if unknown is not None:
        raise UsageError(f"there is no server {unknown!r} in the configuration")
    wanted = [entry for entry in config.entries if entry.enabled and _is_selected(entry.key, options)]
    for entry in wanted:
        if entry.problem is not None:
            raise CommandFailed("usage", entry.problem, USAGE)
    approvals = Approvals()
    unapproved = [entry for entry in wanted if entry.spec and not approvals.approved(entry.key, _resolved(entry.spec))]
    if unapproved and not options.yes:
        text = "\n".join(f"  {entry.key}: {_launch(entry)} ({entry.origin})" for entry in unapproved)
        raise CommandFailed(
            "refused",
            f"These servers were not approved yet:\n{text}\n"
            "Approve them with `dovetail approve FILE`, or start them with --yes",
        )
    return wanted


def _audit_launches(entries: Sequence[ServerEntry], options: argparse.Namespace, project: Path) -> None:
    """Check the policy for every launch and append it to the audit log."""
    from dovetail.policy.actions import Action
    from dovetail.policy.audit.log import Audit
    from dovetail.policy.launch_target import loggable_spec
    from dovetail.policy.policy_file import build_policy

    policy = build_policy(project=project.absolute())
    with Audit() as audit:
        for entry in entries:
            if entry.spec is None:
                continue
            decision = policy.decide(Action(kind="launch", server=entry.key, launch=entry.spec.digest))
            if decision.verdict == "deny":
                audit.write("refusal", server=entry.key, by="policy", rule=decision.rule, kind="launch")
                raise CommandFailed("refused", f"The policy forbids starting {entry.key!r} ({decision.rule})")
            rule = "started with `dovetail lock --yes`" if options.yes else "approved before"
            audit.write(
                "launch",
                server=entry.key,
                by="person",
                rule=rule,
                kind="launch",
                spec=loggable_spec(_resolved(entry.spec)),
            )


async def _probe(entries: Sequence[ServerEntry]) -> ProbedDefinitions:
    from dovetail.client.targets.secrets import Secrets
    from dovetail.host.servers.definition_probe import probe_definitions

    return await probe_definitions(entries, Secrets())


def _check(options: argparse.Namespace, config: Config, lock: Lock, file: LockFile, probed: ProbedDefinitions) -> int:
    _fail_if_unreachable(probed)
    configured = {entry.key for entry in config.entries}
    gone = [key for key in lock.servers if key not in configured and _is_selected(key, options)]
    compared = probed.definitions | {key: list["Definition"]() for key in gone}
    different = [item for key in sorted(compared) for item in lock.compare(key, compared[key]) if item.status != "same"]
    if different:
        text = "\n".join(_difference_text(item) for item in different)
        facts = [_facts(item) for item in different]
        raise CommandFailed("changed", f"The servers differ from {file.path}:\n{text}", differences=facts)
    _print_result(
        options, f"The servers match {file.path}.", {"file": str(file.path), "servers": sorted(probed.definitions)}
    )
    return OK


def _write(options: argparse.Namespace, config: Config, file: LockFile, probed: ProbedDefinitions) -> int:
    from dovetail.policy.lockfile import Lock
    from dovetail.policy.user_decisions import AcceptedWarnings

    before, accepted = file.read() or Lock(), AcceptedWarnings()
    findings = _review(before, probed, accepted)
    suspicious = [one for one in findings if one.concerns and not accepted.has(one.server, one.definition)]
    held = [] if options.accept else suspicious
    taken = [one for one in findings if one not in held]
    _audit_accepted(taken, f"accepted with `dovetail lock{' --accept' if options.accept else ''}`")
    for one in suspicious if options.accept else ():
        accepted.add(one.server, one.definition)
    configured = {entry.key for entry in config.entries}

    def renewed(lock: Lock) -> Lock:
        for key in probed.definitions:
            lock = lock.with_server(key, [one.definition for one in taken if one.server == key])
        for key in lock.servers if not options.server else ():
            lock = lock if key in configured else lock.without(key)
        return lock

    _report(options, file, before, file.change(renewed), held)
    _fail_if_unreachable(probed)
    return FAILED if held else OK


def _audit_accepted(taken: Sequence[Finding], rule: str) -> None:
    """Append accepted definitions to the audit log; if that fails, they are not accepted."""
    from dovetail.policy.audit.log import Audit

    with Audit() as audit:
        for one in taken:
            if one.status != "same":
                audit.write(
                    "definition",
                    server=one.server,
                    name=one.definition.name or one.definition.kind,
                    by="person",
                    rule=rule,
                    definition=one.definition.digest,
                    concerns=one.concerns,
                )


def _review(lock: Lock, probed: ProbedDefinitions, accepted: AcceptedWarnings) -> list[Finding]:
    from dovetail.policy.review import review

    names = {
        key: [definition.name for definition in definitions if definition.kind == "tool"]
        for key, definitions in probed.definitions.items()
    }
    return [
        finding
        for key, definitions in sorted(probed.definitions.items())
        for finding in review(key, definitions, lock, names, accepted.has)
    ]


def _report(options: argparse.Namespace, file: LockFile, before: Lock, after: Lock, held: list[Finding]) -> None:
    changed = [
        item
        for key in sorted({*before.servers, *after.servers})
        for item in before.compare(key, after.definitions(key))
        if item.status != "same"
    ]
    concerns = [f"{one.server}: {concern}" for one in held for concern in one.concerns]
    lines = [f"  {item}" for item in changed]
    report = [f"Written to {file.path}" + (":" if lines else "; nothing has changed."), *lines]
    if concerns:
        report += ["Not accepted because it looks suspicious (use --accept to accept it):"]
        report += [f"  {concern}" for concern in concerns]
    facts = {"file": str(file.path), "differences": [_facts(item) for item in changed], "concerns": concerns}
    _print_result(options, "\n".join(report), facts)


def _fail_if_unreachable(probed: ProbedDefinitions) -> None:
    if probed.problems:
        text = "\n".join(f"  {key}: {problem}" for key, problem in sorted(probed.problems.items()))
        raise CommandFailed("unreachable", f"These servers could not be reached:\n{text}", UNREACHABLE)


def _difference_text(item: Difference) -> str:
    return "\n".join([str(item), *(f"    {line}" for line in item.text.splitlines())])


def _facts(item: Difference) -> dict[str, Any]:
    definition = item.definition
    return {
        "server": item.server,
        "kind": definition.kind,
        "name": definition.name,
        "status": item.status,
        "before": item.before.digest if item.before else None,
        "after": item.after.digest if item.after else None,
        "difference": item.text,
    }


def _resolved(spec: LaunchSpec) -> LaunchSpec:
    import os

    from dovetail.client.targets.environment import shared_environment
    from dovetail.policy.launch_files import resolve_launch

    return resolve_launch(spec, shared_environment(os.environ))


def _launch(entry: ServerEntry) -> str:
    import shlex

    spec = entry.spec
    return "" if spec is None else spec.url or shlex.join(spec.command)


def _is_selected(key: str, options: argparse.Namespace) -> bool:
    return not options.server or key in options.server


def _print_result(options: argparse.Namespace, text: str, facts: dict[str, Any]) -> None:
    if options.format == "json":
        output.show_json(facts)
    else:
        output.show_text(text)
