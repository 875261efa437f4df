"""`dovetail init NAME`.

`dovetail generate-cli TARGET`.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.exit_status import OK, USAGE, CommandFailed
from dovetail.cli.options.client_options import (
    add_client_options,
    add_format_option,
    run_with_client,
)
from dovetail.cli.options.targets import add_target_argument
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay

if TYPE_CHECKING:
    from dovetail.client.client import Client

_HARMLESS = frozenset({".git"})
"""Entries that a new project may be created beside."""


def configure_init(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", metavar="NAME", help="the name of the project and of its folder; . for this folder")
    parser.add_argument("--http", action="store_true", help="serve over HTTP instead of stdin and stdout")
    add_format_option(parser)


def run_init(options: argparse.Namespace) -> int:
    """Create the project."""
    from dovetail.cli.generate.project import project_files, project_names

    folder = Path(options.name)
    try:
        names = project_names(folder.resolve().name)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    files = project_files(names, http=options.http)
    _check_empty(folder)
    try:
        for path, text in files.items():
            write_file(folder / path, text)
    except OSError as problem:
        raise CommandFailed("usage", f"{folder} cannot be written: {problem.strerror}", USAGE) from None
    if options.format == "json":
        output.show_json({"folder": str(folder.resolve()), "files": list(files)})
        return OK
    server = f"src/{names.package}/server.py"
    lines = [
        f"Created {names.distribution} with {len(files)} files. Next:",
        *([] if folder.resolve() == Path.cwd() else [f"  cd {folder}"]),
        f"  dovetail dev {server}",
        "  pytest",
        f"The tools are in {server}.",
    ]
    output.show_text("\n".join(lines))
    return OK


def _check_empty(folder: Path) -> None:
    try:
        found = [name for name in sorted(os.listdir(folder)) if name not in _HARMLESS]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise UsageError(f"{folder} is a file") from None
    except OSError as problem:
        raise UsageError(f"{folder} cannot be read: {problem.strerror}") from None
    if found:
        some = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
        raise UsageError(f"{folder} is not empty ({some}): name a new folder")


def write_file(path: Path, text: str) -> None:
    """Write a text file, with its folders; line ends are the same on every system."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    if text.startswith("#!"):
        path.chmod(0o755)


def configure_generate_cli(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_target_argument(parser)
    parser.add_argument(
        "-o", "--output", dest="folder", metavar="DIR", help="where to write them (default: a folder NAME-cli)"
    )
    parser.add_argument("--name", metavar="NAME", help="the name of the program (default: the server's)")
    parser.add_argument("--force", action="store_true", help="overwrite files that were not generated")
    add_client_options(parser, output=False)


def run_generate_cli(options: argparse.Namespace) -> int:
    """Write the program and its SKILL.md."""
    return run_with_client(options, _generate_cli)


async def _generate_cli(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    from dovetail.cli.generate.program import program_source
    from dovetail.cli.generate.skill import skill_text
    from dovetail.cli.generate.tool_options import tool_commands

    commands = tool_commands(await client.tools())
    if not commands:
        raise CommandFailed("not_found", "This server has no tools.")
    server = client.server
    title = "the server" if server is None else server.title or server.name
    name = re.sub(r"[^a-z0-9]+", "-", (options.name or title).lower()).strip("-")[:60] or "server"
    folder = Path(options.folder or f"{name}-cli")
    program = f"{name.replace('-', '_')}_cli.py"
    files = {
        program: program_source(title, program, _embedded_target(options.target), commands),
        "SKILL.md": skill_text(name, title, program, client.instructions or "", commands),
    }
    _write_generated(folder, files, force=options.force)
    if options.format == "json":
        output.show_json({"files": [str(folder / path) for path in files], "commands": [one.name for one in commands]})
        return
    count = "1 command" if len(commands) == 1 else f"{len(commands)} commands"
    output.show_text(f"Wrote {folder / program} with {count}, and {folder / 'SKILL.md'}. Try:")
    output.show_text(f"  python {folder / program} {commands[0].name} --help")


def _embedded_target(word: str) -> str | list[str]:
    """The target as the program has it: independent of the folder and the interpreter."""
    from dovetail.client.targets.python_files import split_object

    path, _ = split_object(word)
    if path.endswith(".py") and os.path.isfile(path):
        return ["python", "-P", "-m", "dovetail.cli", "run", os.path.abspath(path) + word[len(path) :]]
    return word


def _write_generated(folder: Path, files: dict[str, str], *, force: bool) -> None:
    """Write the files; one that was not generated is kept, unless `force`."""
    from dovetail.cli.generate.program import MARK

    try:
        for path in files:
            there = folder / path
            if not force and there.exists() and MARK not in there.read_text(encoding="utf-8", errors="replace"):
                raise CommandFailed("usage", f"{there} was not generated: --force overwrites it", USAGE)
        for path, text in files.items():
            write_file(folder / path, text)
    except OSError as problem:
        raise CommandFailed("usage", f"{folder} cannot be written: {problem.strerror}", USAGE) from None
