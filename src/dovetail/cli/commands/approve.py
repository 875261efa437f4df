"""`dovetail approve FILE [NAME…]`: approval of the launches of a configuration file, for gateways and hosts."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dovetail.cli import output
from dovetail.cli.exit_status import OK, USAGE, CommandFailed
from dovetail.cli.options.client_options import add_format_option
from dovetail.cli.options.config_options import audit_change, print_result, print_warnings
from dovetail.cli.options.launch_approval import resolved_launch
from dovetail.cli.options.terminal_prompts import TerminalPrompts
from dovetail.cli.terminal.progress import ProgressDisplay

if TYPE_CHECKING:
    from dovetail.config.entries import ServerEntry
    from dovetail.config.launch_spec import LaunchSpec
    from dovetail.policy.approvals import Approvals

_State: TypeAlias = Literal["approved", "approved before", "refused"]


class _Launch(NamedTuple):
    """A server, and its launch with its program and the content of its files."""

    entry: ServerEntry
    spec: LaunchSpec


def configure_approve(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", metavar="FILE", help="a configuration file, such as mcp.json")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="the servers to approve (default: all that are enabled)"
    )
    parser.add_argument("--yes", action="store_true", help="approve without asking, for scripts")
    add_format_option(parser)
    parser.epilog = (
        "An approval is for exactly the command, folder, environment, program and files that are shown. Run this as the"
        " user who runs the gateway or the host, in the same folder and with the same environment variables."
    )


def run_approve(options: argparse.Namespace) -> int:
    """Show each launch, and approve those that the user agrees to."""
    with ProgressDisplay(sys.stderr) as display:
        return asyncio.run(_approve(options, os.path.abspath(options.file), TerminalPrompts(display)))


async def _approve(options: argparse.Namespace, file: str, prompts: TerminalPrompts) -> int:
    from dovetail.policy.approvals import Approvals

    approvals = Approvals()
    launches = _launches(file, options.names)
    states: dict[str, _State] = {
        one.entry.key: "approved before" for one in launches if approvals.approved(one.entry.key, one.spec)
    }
    wanted = [one for one in launches if one.entry.key not in states]
    if wanted and not options.yes and not prompts.available:
        lines = [line for one in wanted for line in _description(one, approvals)]
        hint = "There is no terminal to ask at: --yes approves without a question."
        raise CommandFailed("refused", "\n".join(["These launches were not approved:", *lines, hint]))
    for launch in wanted:
        states[launch.entry.key] = await _approve_launch(launch, approvals, options, prompts)
    refused = [key for key, state in states.items() if state == "refused"]
    facts = [{"key": one.entry.key, "state": states[one.entry.key], "digest": one.spec.digest} for one in launches]
    if refused:
        raise CommandFailed("refused", f"Not approved: {', '.join(refused)}")
    print_result(options, _summary(states), {"file": file, "servers": facts})
    return OK


def _launches(file: str, names: Sequence[str]) -> list[_Launch]:
    """The launches of the servers that are named, or of all that are enabled."""
    from dovetail.config.reader import read_config

    config = read_config(file)
    print_warnings(config.warnings)
    entries = {entry.key: entry for entry in config.entries}
    for name in names:
        if name not in entries:
            near = difflib.get_close_matches(name, entries, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise CommandFailed("not_found", f"{file} has no server {name!r}{hint}")
    wanted = [entries[name] for name in dict.fromkeys(names)] or [one for one in config.entries if one.enabled]
    launches: list[_Launch] = []
    for entry in wanted:
        if entry.spec is not None:
            launches.append(_Launch(entry, resolved_launch(entry.spec)))
        elif names:
            raise CommandFailed("usage", f"The server {entry.key!r} cannot be started: {entry.problem}", USAGE)
        else:
            print_warnings([f"the server {entry.key!r} cannot be started: {entry.problem}"])
    return launches


async def _approve_launch(
    launch: _Launch, approvals: Approvals, options: argparse.Namespace, prompts: TerminalPrompts
) -> _State:
    from dovetail.policy.launch_target import loggable_spec

    entry, spec = launch
    lines = _description(launch, approvals)
    if options.yes:
        if options.format == "text":
            output.show_text("\n".join(lines))
    elif not await prompts.confirm("Approve it, now and in future?", lines):
        return "refused"
    elif entry.spec is None or resolved_launch(entry.spec).digest != spec.digest:
        raise CommandFailed("refused", f"{entry.key!r} has changed since you were asked, and is not approved")
    audit_change("approve", entry.key, entry.origin.file, spec=loggable_spec(spec))
    approvals.approve(entry.key, spec)
    return "approved"


def _description(launch: _Launch, approvals: Approvals) -> list[str]:
    """The launch as the host shows it in its question."""
    from dovetail.cli.chat.views.launches import launch_description, launch_verb
    from dovetail.cli.chat.views.rendering import quoted
    from dovetail.policy.approval_questions import LaunchQuestion

    entry, spec = launch
    question = LaunchQuestion(
        server=entry.key, spec=spec, origin=str(entry.origin), before=approvals.before(entry.key, spec)
    )
    parts = launch_description(question)
    return [
        f"{quoted(entry.key)} is {launch_verb(spec)} in this way:",
        *(part if isinstance(part, str) else part[1] for part in parts),
    ]


def _summary(states: dict[str, _State]) -> str:
    approved = [key for key, state in states.items() if state == "approved"]
    before = [key for key, state in states.items() if state == "approved before"]
    lines = [f"Approved: {', '.join(approved)}."] if approved else []
    lines += [f"Approved before: {', '.join(before)}."] if before else []
    return "\n".join(lines) or "No servers."
