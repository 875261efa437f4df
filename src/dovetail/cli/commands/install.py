"""`dovetail install` and `dovetail uninstall`: a server in the configuration of another program."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import hashlib
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dovetail.cli import output
from dovetail.cli.exit_status import OK, CommandFailed
from dovetail.cli.options.client_options import add_format_option
from dovetail.cli.options.config_options import audited, print_result, print_warnings
from dovetail.cli.options.targets import TargetSearch, add_target_argument, command_name, host_name
from dovetail.cli.options.terminal_prompts import TerminalPrompts
from dovetail.cli.options.values import read_pairs
from dovetail.cli.parser import MODULE_TARGET, UsageError
from dovetail.cli.terminal.progress import ProgressDisplay
from dovetail.config.programs import PROGRAMS, Program, find_program, places

if TYPE_CHECKING:
    from dovetail.config.launch_spec import LaunchSpec
    from dovetail.policy.user_file import UserFile

_NAMES = tuple(sorted(program.name for program in PROGRAMS))


class InstallRecord(msgspec.Struct, frozen=True):
    """A change that `install` made to a file, so that `uninstall` can undo exactly that."""

    after: str
    """SHA-256 of the file afterwards."""
    backup: str | None
    """The file as it was before; None if there was none."""


def configure_install(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.usage = "dovetail install TARGET --into PROGRAM [options] [-- ARGUMENTS…] | dovetail install --list"
    add_target_argument(parser)
    next(action for action in parser._actions if action.dest == "target").nargs = "?"  # pyright: ignore[reportPrivateUsage]
    parser.add_argument(
        "--into", action="append", default=[], choices=_NAMES, metavar="PROGRAM", help=f"one of {', '.join(_NAMES)}"
    )
    parser.add_argument("--list", action="store_true", help="list the programs, their files, and which exist")
    parser.add_argument(
        "--name", metavar="NAME", help="the name of the server there (default: its own, or by the file or URL)"
    )
    parser.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="set for the server's process")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="for a server at a URL")
    parser.add_argument("--replace", action="store_true", help="replace a server of the same name")
    _add_edit_options(parser)


def configure_uninstall(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", metavar="NAME", help="the name of the server there")
    parser.add_argument(
        "--from",
        dest="into",
        action="append",
        required=True,
        choices=_NAMES,
        metavar="PROGRAM",
        help=f"one of {', '.join(_NAMES)}",
    )
    _add_edit_options(parser)


def _add_edit_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--project", action="store_true", help="the program's file in the current folder, if it has one"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the change and make none")
    parser.add_argument("--yes", action="store_true", help="make the change without asking")
    add_format_option(parser)


def run_install(options: argparse.Namespace) -> int:
    """Install the server into each program, or list the programs."""
    if options.list:
        return _list_programs(options)
    if options.target is None or not options.into:
        raise UsageError("name the server and the program: dovetail install server.py --into claude-desktop")
    spec, name = _launch(options)
    name = options.name or name
    edits = [_install_edit(find_program(each), name, spec, options) for each in dict.fromkeys(options.into)]
    return _apply(options, "install", name, edits)


def run_uninstall(options: argparse.Namespace) -> int:
    """Take the server out of each program."""
    edits = [_uninstall_edit(find_program(each), options) for each in dict.fromkeys(options.into)]
    return _apply(options, "uninstall", options.name, edits)


class _Edit(msgspec.Struct, frozen=True):
    program: Program
    file: str
    before: str | None
    after: str | None
    entry: dict[str, Any] | None = None


def _file(program: Program, options: argparse.Namespace) -> str:
    if options.project:
        if program.project is None:
            raise UsageError(f"{program.title} has no file for a project")
        return os.path.abspath(program.project)
    files = program.files(places())
    return str(next((path for path in files if path.is_file()), files[0]))


def _install_edit(program: Program, name: str, spec: LaunchSpec, options: argparse.Namespace) -> _Edit:
    from dovetail.config.installing import installed_servers, with_server

    file = _file(program, options)
    before = _read(file)
    entry = program.entry(name, spec)
    there = installed_servers(program, file, before)
    if there.get(name) == entry:
        return _Edit(program, file, before, before, entry)
    if name in there and not options.replace:
        raise CommandFailed("exists", f"{file} has a server {name!r} already; pass --replace, or another --name")
    return _Edit(program, file, before, with_server(program, file, before, name, entry), entry)


def _uninstall_edit(program: Program, options: argparse.Namespace) -> _Edit:
    from dovetail.config.installing import installed_servers, without_server

    file, name = _file(program, options), options.name
    before = _read(file)
    there = {} if before is None else installed_servers(program, file, before)
    if before is None or name not in there:
        near = difflib.get_close_matches(name, list(there), 1)
        hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(there)}" if there else ""
        raise CommandFailed("not_found", f"{file} has no server {name!r}{hint}")
    record = _records().read().get(_record_key(file, name))
    if record is not None and record.after == _digest(before):
        # Nothing else has changed since, so the file becomes exactly what it was.
        return _Edit(program, file, before, None if record.backup is None else _read(record.backup))
    return _Edit(program, file, before, without_server(program, file, before, name))


def _read(file: str) -> str | None:
    from dovetail.config.document import read_text

    return read_text(file) if os.path.lexists(file) else None


def _apply(options: argparse.Namespace, action: str, name: str, edits: Sequence[_Edit]) -> int:
    changed = [edit for edit in edits if edit.before != edit.after]
    if options.format == "text":
        for edit in changed:
            output.show_text(_difference(edit))
    results: list[dict[str, Any]] = [
        {"program": edit.program.name, "file": edit.file, "changed": edit in changed} for edit in edits
    ]
    facts: dict[str, Any] = {"name": name, "results": results}
    if options.dry_run:
        print_result(options, "Nothing was changed.", facts)
        return OK
    if changed and not options.yes:
        _confirm(f"{action.capitalize()} {name}?")
    lines: list[str] = []
    for edit, result in zip(edits, results, strict=True):
        if edit in changed:
            result["backup"] = _write(action, name, edit)
        lines += _report(action, name, edit, result.get("backup"))
    print_result(options, "\n".join(lines), facts)
    return OK


def _confirm(question: str) -> None:
    async def ask() -> bool:
        with ProgressDisplay(sys.stderr) as display:
            prompts = TerminalPrompts(display)
            if not prompts.available:
                raise UsageError("there is no terminal to ask at; --yes makes the change, --dry-run shows it")
            return await prompts.confirm(question)

    if not asyncio.run(ask()):
        raise CommandFailed("refused", "Nothing was changed")


def _write(action: str, name: str, edit: _Edit) -> str | None:
    """Make a backup, write the file, and remember what was done."""
    from dovetail.config.editing import replace_text
    from dovetail.userdata.folders import user_folder
    from dovetail.userdata.private_file import write_private

    backup = None
    if edit.before is not None:
        stamp = time.strftime("%Y%m%d-%H%M%S") + f"-{time.time_ns() % 1_000_000:06d}"
        backup = str(user_folder() / "backups" / f"{stamp}-{edit.program.name}-{Path(edit.file).name}")
        write_private(Path(backup), edit.before.encode())
    with audited(action, {name: {"program": edit.program.name}}, edit.file):
        replace_text(edit.file, edit.before, edit.after)
    key, after = _record_key(edit.file, name), edit.after

    def change(records: dict[str, InstallRecord]) -> dict[str, InstallRecord]:
        kept = {each: record for each, record in records.items() if each != key}
        return {**kept, key: InstallRecord(_digest(after), backup)} if action == "install" and after else kept

    _records().change(change)
    return backup


def _report(action: str, name: str, edit: _Edit, backup: str | None) -> list[str]:
    if edit.before == edit.after:
        return [f"{edit.program.title} has {name} already, in {edit.file}."]
    done = f"Installed {name} into" if action == "install" else f"Removed {name} from"
    lines = [f"{done} {edit.program.title}: {edit.file}"]
    lines += [f"  The file as it was: {backup}"] if backup is not None else []
    return [*lines, f"  {edit.program.restart}"] if action == "install" else lines


def _records() -> UserFile[dict[str, InstallRecord]]:
    from dovetail.policy.user_file import UserFile
    from dovetail.userdata.folders import user_folder

    return UserFile[dict[str, InstallRecord]](user_folder() / "installs.json", dict[str, InstallRecord], {})


def _record_key(file: str, name: str) -> str:
    return f"{os.path.realpath(file)}#{name}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _difference(edit: _Edit) -> str:
    """The change as a diff, without secrets."""
    from dovetail.text.redact import REDACTED, is_secret, redact_text

    before, after = (edit.before or "").splitlines(), (edit.after or "").splitlines()
    lines = difflib.unified_diff(before, after, edit.file, edit.file, lineterm="")

    def hide(line: str) -> str:
        match = re.fullmatch(r"""([-+ ]\s*["']?([\w-]+)["']?\s*[:=]\s*)(["']?)(?![\[{]).+?\3(,?)""", line)
        if match is not None and is_secret(match[2]):
            return f"{match[1]}{match[3]}{REDACTED}{match[3]}{match[4]}"
        return redact_text(line)

    return "\n".join(hide(line) for line in lines)


def _launch(options: argparse.Namespace) -> tuple[LaunchSpec, str]:
    """The launch of the TARGET with absolute paths, and a name for it."""
    from dovetail.config.launch_spec import LaunchSpec

    env, headers = read_pairs(options.env), read_pairs(options.header, "NAME=VALUE")
    word: str = options.target
    found = TargetSearch(options.after_dashes).find(word)
    if isinstance(found, str):
        if env or "://" not in found:
            raise UsageError("--env is for a server that is started" if env else f"{found} is no http or https URL")
        return LaunchSpec(kind="http", url=found, headers=headers), host_name(found)
    if headers:
        raise UsageError("--header is for a server at a URL")
    if isinstance(found, list):
        if word.startswith(MODULE_TARGET):
            env.setdefault("PYTHONPATH", os.getcwd())
        return LaunchSpec(kind="stdio", command=_absolute(found), env=env), command_name(word)
    entry = found.entry
    if entry.spec is None or entry.inputs:
        wanted = ", ".join(each.id for each in entry.inputs)
        raise CommandFailed("usage", entry.problem or f"{entry.key!r} asks for {wanted}: give it with --env instead", 1)
    if entry.spec.cwd is not None:
        print_warnings([f"{entry.key} runs in {entry.spec.cwd} here; other programs may start it elsewhere"])
    command = entry.spec.command and _absolute([*entry.spec.command, *options.after_dashes])
    return msgspec.structs.replace(entry.spec, command=command, env={**entry.spec.env, **env}), entry.key


def _absolute(words: Sequence[str]) -> tuple[str, ...]:
    """The command with absolute paths, because other programs have another PATH and another folder."""
    import shutil

    program = shutil.which(words[0]) or words[0]
    rest = [os.path.abspath(word) if os.path.isfile(word) else word for word in words[1:]]
    return os.path.abspath(program), *rest


def _list_programs(options: argparse.Namespace) -> int:
    at = places()
    facts = [
        {
            "program": program.name,
            "title": program.title,
            "file": _file(program, argparse.Namespace(project=False)),
            "project": program.project,
            "exists": any(path.is_file() for path in program.files(at)),
        }
        for program in PROGRAMS
    ]
    if options.format == "json":
        output.show_json(facts)
        return OK
    home = str(at.home) + os.sep
    rows = [
        [
            str(fact["program"]),
            "yes" if fact["exists"] else "no",
            str(fact["project"] or ""),
            str(fact["file"]).replace(home, "~/", 1),
        ]
        for fact in facts
    ]
    output.show_table(None, ("program", "exists", "project file", "file"), rows)
    return OK
