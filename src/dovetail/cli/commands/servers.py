"""`dovetail servers [NAME]`: the configured servers, where they come from, and whether they can start."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dovetail.cli import output
from dovetail.cli.exit_status import FAILED, OK, CommandFailed, explain
from dovetail.cli.options.client_options import add_format_option
from dovetail.cli.options.configured_servers import ConfiguredServer, ConfiguredServers, find_configured_servers
from dovetail.cli.options.last_errors import LastErrors, ServerError
from dovetail.cli.options.launch_approval import approval_state
from dovetail.cli.options.terminal_prompts import TerminalPrompts
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay

if TYPE_CHECKING:
    from dovetail.config.launch_spec import LaunchSpec

MAX_CHECKED_AT_ONCE = 4
"""Servers that `--check` starts at the same time."""


def configure_servers(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="show this server in full, without its secrets")
    parser.add_argument("--file", action="append", default=[], metavar="PATH", help="only servers of this file")
    parser.add_argument(
        "--check", action="store_true", help="start the servers, or connect to them, and say how it went"
    )
    parser.add_argument("--yes", action="store_true", help="with --check, also start those that were not approved yet")
    parser.add_argument(
        "--timeout", type=float, default=20.0, metavar="SECONDS", help="for each server, with --check (default 20)"
    )
    add_format_option(parser)
    parser.epilog = "Without --check no server is started. Names are targets of the other commands: dovetail list NAME."


def run_servers(options: argparse.Namespace) -> int:
    """List the servers, or show one."""
    missing = next((path for path in options.file if not os.path.isfile(path)), None)
    if missing is not None:
        raise UsageError(f"there is no file {missing}")
    found = find_configured_servers(options.file)
    servers = found.servers if options.name is None else _named(found, options.name)
    facts = [_facts(server, detailed=options.name is not None) for server in servers]
    failed = False
    with LastErrors() as last_errors:
        if options.check:
            checked = asyncio.run(_check_all(servers, options))
            for fact, result in zip(facts, checked, strict=True):
                fact["check"] = result
                if fact["used"] and "skipped" not in result:
                    last_errors.set(fact["name"], result.get("error"))
            failed = any("error" in result for result in checked)
        else:
            errors = last_errors.read()
            for fact in facts:
                fact["lastError"] = errors.get(fact["name"]) if fact["used"] else None
    if options.format == "json":
        output.show_json({"servers": facts, "files": found.files, "warnings": found.warnings})
    elif options.name is None:
        _print_table(facts, found)
    else:
        _print_details(facts, found)
    return FAILED if failed else OK


def _named(found: ConfiguredServers, name: str) -> list[ConfiguredServer]:
    import difflib

    servers = [each for each in found.servers if each.entry.key == name]
    if not servers:
        keys = list(dict.fromkeys(each.entry.key for each in found.servers))
        near = difflib.get_close_matches(name, keys, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(keys) or 'none'}"
        raise CommandFailed("not_found", f"There is no configured server {name!r}; {hint}")
    return servers


def _facts(server: ConfiguredServer, *, detailed: bool) -> dict[str, Any]:
    entry, spec = server.entry, server.entry.spec
    facts: dict[str, Any] = {
        "name": entry.key,
        "transport": None if spec is None else spec.kind,
        "enabled": entry.enabled,
        "approval": approval_state(server),
        "file": server.file,
        "line": entry.origin.line,
        "program": server.product,
        "scope": server.scope,
        "used": server.first,
        "problem": entry.problem,
    }
    return facts | (_launch_facts(spec) if detailed and spec is not None else {})


def _launch_facts(spec: LaunchSpec) -> dict[str, Any]:
    from dovetail.policy.launch import redacted_spec
    from dovetail.text.redact import redact_text

    shown = redacted_spec(spec)
    if spec.url is not None:
        return {"url": redact_text(spec.url), "headers": shown.headers}
    return {"command": list(shown.command), "cwd": spec.cwd, "env": shown.env}


def _state(fact: dict[str, Any]) -> str:
    if fact["problem"] is not None:
        return "cannot start"
    if not fact["enabled"]:
        return "disabled"
    if not fact["used"]:
        return "hidden"
    if fact["approval"] == "approved":
        return "approved"
    return "ready" if fact["scope"] == "user" else str(fact["approval"])


def _print_table(facts: Sequence[dict[str, Any]], found: ConfiguredServers) -> None:
    if not facts:
        output.show_text(
            "No servers are configured. `dovetail add NAME -- COMMAND` adds one, and `dovetail import` takes over those"
            " of other programs."
        )
    else:
        checked = "check" in facts[0]
        rows = [
            [
                fact["name"],
                fact["transport"] or "",
                _state(fact),
                f"{_short(fact['file'])}:{fact['line']}",
                *([_outcome(fact["check"])] if checked else []),
            ]
            for fact in facts
        ]
        output.show_table(None, ("name", "transport", "state", "file", *(["check"] if checked else [])), rows)
        for fact in facts:
            if fact["problem"] is not None:
                output.show_text(f"{fact['name']}: {fact['problem']}")
            elif last := fact.get("lastError"):
                output.show_text(f"{fact['name']}: {_ago(last)}: {output.heading(last.error)}")
    _print_warnings(found)


def _print_details(facts: Sequence[dict[str, Any]], found: ConfiguredServers) -> None:
    for fact in facts:
        lines = [f"{fact['name']}  ({_state(fact)})", f"  file       {_short(fact['file'])}:{fact['line']}"]
        lines.append(
            f"  program    {fact['program']}, {'your own file' if fact['scope'] == 'user' else 'a project file'}"
        )
        if "command" in fact:
            lines += [f"  command    {shlex.join(fact['command'])}"]
            lines += [f"  folder     {fact['cwd']}"] if fact["cwd"] else []
        elif "url" in fact:
            lines.append(f"  url        {fact['url']} ({fact['transport']})")
        for title in ("env", "headers"):
            values: dict[str, str] = fact.get(title) or {}
            lines += [f"  {title:<10} {name}={value}" for name, value in values.items()]
        if fact["approval"] is not None and not (_state(fact) == "ready" and fact["approval"] == "not approved"):
            # A server of the user's own file is ready without an approval.
            lines.append(f"  approval   {fact['approval']}")
        if fact["problem"] is not None:
            lines.append(f"  problem    {fact['problem']}")
        if last := fact.get("lastError"):
            lines += [f"  {_ago(last)}", *(f"    {line}" for line in last.error.splitlines())]
        if "check" in fact:
            lines.append(f"  check      {_outcome(fact['check'])}")
        output.show_text("\n".join(lines))
    _print_warnings(found)


def _print_warnings(found: ConfiguredServers) -> None:
    for text in found.warnings:
        print(f"dovetail: {output.printable(text)}", file=sys.stderr)


def _outcome(check: dict[str, Any]) -> str:
    if "skipped" in check:
        return f"skipped: {check['skipped']}"
    if "error" in check:
        return f"failed: {output.heading(check['error'])}"
    return f"ok, {check['tools']} tools, {check['milliseconds']:.0f} ms"


def _ago(last: ServerError) -> str:
    seconds = max(time.time() - last.at, 0)
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"last error, {seconds / size:.0f} {unit} ago"
    return f"last error, {seconds:.0f} seconds ago"


def _short(file: str) -> str:
    """A path as a user writes it: from here, or from the home folder."""
    here, home = os.getcwd(), os.path.expanduser("~")
    if file.startswith(here + os.sep):
        return os.path.relpath(file, here)
    return "~" + file[len(home) :] if file.startswith(home + os.sep) else file


async def _check_all(servers: Sequence[ConfiguredServer], options: argparse.Namespace) -> list[dict[str, Any]]:
    turns = asyncio.Semaphore(MAX_CHECKED_AT_ONCE)

    async def one(server: ConfiguredServer) -> dict[str, Any]:
        async with turns:
            return await _check(server, options)

    with ProgressDisplay(sys.stderr):
        return await asyncio.gather(*(one(server) for server in servers))


async def _check(server: ConfiguredServer, options: argparse.Namespace) -> dict[str, Any]:
    """Connect to a server that may start, and count its tools."""
    from dovetail.cli.options.targets import client_target
    from dovetail.client.client import Client

    fact = _facts(server, detailed=False)
    if (state := _state(fact)) in ("disabled", "hidden"):
        return {"skipped": state}
    if fact["problem"] is not None:
        return {"error": fact["problem"]}
    if server.scope == "project" and fact["approval"] != "approved" and not options.yes:
        return {"skipped": f"{fact['approval']}; approve it in `dovetail host`, or pass --yes"}
    started = time.monotonic()
    try:
        async with asyncio.timeout(options.timeout):
            target = await client_target(
                server,
                TerminalPrompts(None),
                env={},
                cwd=None,
                inherit_env=False,
                on_stderr=lambda line: None,
                arguments=(),
                yes=options.yes,
            )
            async with Client(target, timeout=options.timeout) as client:
                tools = await client.tools() if client.capabilities.tools is not None else []
    except TimeoutError:
        return {"error": f"no answer within {options.timeout:g} seconds"}
    except Exception as problem:
        report = explain(problem)
        if report is None:
            raise
        return {"error": report.message}
    return {"tools": len(tools), "milliseconds": (time.monotonic() - started) * 1000}
