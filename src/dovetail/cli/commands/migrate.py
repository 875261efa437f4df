"""`dovetail migrate PATH…`."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.cli import output
from dovetail.cli.exit_status import FAILED, OK, USAGE, CommandFailed

if TYPE_CHECKING:
    from dovetail.cli.migrate.project import Migrated, SourceFile


def configure_migrate(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a Python file, or a folder with Python files")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--diff", action="store_true", help="print the changes and write nothing (default)")
    mode.add_argument("--write", action="store_true", help="change the files")
    mode.add_argument("--check", action="store_true", help="fail if something is to be changed or done by hand")
    parser.add_argument("--force", action="store_true", help="change files with uncommitted changes too")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output for users or for scripts")


def run_migrate(options: argparse.Namespace) -> int:
    """Rewrite servers written for FastMCP or the official SDK, and report what is left."""
    files = _migrated([Path(path) for path in options.paths])
    changed = [file for file in files if file.is_changed]
    kept = _write(changed, options.force) if options.write else []
    if options.format == "json":
        output.show_json({"files": [_as_json(file, options.write) for file in files], "written": options.write})
    else:
        if not options.write and not options.check:
            _show_diffs(changed)
        _report(files, changed, kept, written=options.write)
    problems = any(file.problem for file in files)
    if problems or (options.check and (changed or any(file.migration.notes for file in files))):
        return FAILED
    return OK


def _migrated(paths: Sequence[Path]) -> list[Migrated]:
    from dovetail.cli.migrate.project import migrate_files, python_files, read_file

    files: list[SourceFile] = []
    for path in paths:
        if not path.exists():
            raise CommandFailed("usage", f"There is no file or folder {path}", USAGE)
    for path in dict.fromkeys(python_files(paths)):
        try:
            files.append(read_file(path))
        except OSError as problem:
            raise CommandFailed("usage", f"{path} cannot be read: {problem.strerror}", USAGE) from None
        except (SyntaxError, UnicodeDecodeError) as problem:
            raise CommandFailed(
                "usage", f"{path} is not text in the encoding that it declares: {problem}", USAGE
            ) from None
    if not files:
        raise CommandFailed("usage", f"There are no Python files in {', '.join(map(str, paths))}", USAGE)
    return migrate_files(files)


def _write(changed: Sequence[Migrated], force: bool) -> list[Path]:
    """Write the files; files in git must have no uncommitted changes, others get a copy of the old text."""
    from dovetail.cli.migrate.project import BACKUP, uncommitted, write_file

    dirty, outside = uncommitted([file.file.path for file in changed])
    if dirty and not force:
        names = ", ".join(map(str, dirty))
        raise CommandFailed(
            "uncommitted", f"{names}: there are uncommitted changes; commit them first, or say --force", USAGE
        )
    kept: list[Path] = []
    for file in changed:
        try:
            copy = write_file(file, backup=file.file.path in outside)
        except FileExistsError:
            raise CommandFailed(
                "usage", f"{file.file.path}{BACKUP} exists already; move it away first", USAGE
            ) from None
        except OSError as problem:
            raise CommandFailed("usage", f"{file.file.path} cannot be written: {problem.strerror}", USAGE) from None
        if copy is not None:
            kept.append(copy)
    return kept


def _show_diffs(changed: Sequence[Migrated]) -> None:
    is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    for file in changed:
        name = str(file.file.path)
        lines = difflib.unified_diff(
            file.file.text.splitlines(keepends=True),
            file.migration.text.splitlines(keepends=True),
            f"a/{name.lstrip('/')}",
            f"b/{name.lstrip('/')}",
        )
        if is_coloured:
            sys.stdout.writelines(_coloured(line) for line in lines)
        else:
            output.show_text("".join(lines))


def _coloured(line: str) -> str:
    text = output.printable(line.rstrip("\r\n"))
    colour = {"+": "32", "-": "31", "@": "36"}.get(line[:1])
    return f"\x1b[{colour}m{text}\x1b[0m\n" if colour and not line.startswith(("+++", "---")) else f"{text}\n"


def _report(files: Sequence[Migrated], changed: Sequence[Migrated], kept: Sequence[Path], *, written: bool) -> None:
    """Print what is left to stderr, so that stdout is a patch; the lines are those of the files as they are now."""
    from dovetail.cli.migrate import moved_notes

    lines: list[str] = []
    for file in files:
        path = file.file.path
        if file.problem:
            lines.append(f"{path}: {file.problem}")
        found = moved_notes(file.file.text, file.migration) if written else file.migration.notes
        lines += [f"{path}:{note.line}: {note.reason}; {note.advice}" for note in found]
    notes = sum(len(file.migration.notes) for file in files)
    lines += [f"{path} has the old text." for path in kept]
    done = sum(file.migration.added for file in changed), sum(file.migration.removed for file in changed)
    verb = "changed" if written else "to change"
    summary = (
        f"{_count(len(changed), 'file')} {verb} (+{done[0]} -{done[1]} lines), {_count(notes, 'place')} to look at."
    )
    sys.stdout.flush()
    print("\n".join([*lines, summary]), file=sys.stderr)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _as_json(file: Migrated, written: bool) -> dict[str, Any]:
    from dovetail.cli.migrate import moved_notes

    migration = file.migration
    notes = moved_notes(file.file.text, migration) if written else migration.notes
    return {
        "path": str(file.file.path),
        "changed": file.is_changed,
        "added": migration.added,
        "removed": migration.removed,
        "problem": file.problem,
        "notes": [note._asdict() for note in notes],
    }
