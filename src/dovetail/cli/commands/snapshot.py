"""`dovetail snapshot TARGET [FILE]`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.exit_status import USAGE, CommandFailed
from dovetail.cli.options.client_options import add_client_options, run_with_client
from dovetail.cli.options.targets import add_target_argument
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay

if TYPE_CHECKING:
    from dovetail.client.client import Client


def configure_snapshot(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_target_argument(parser)
    parser.add_argument("file", nargs="?", metavar="FILE", help="where to write it (default: stdout)")
    parser.add_argument("--check", action="store_true", help="compare the server with FILE and change nothing")
    add_client_options(parser)


def run_snapshot(options: argparse.Namespace) -> int:
    """Save the snapshot, or compare the server with it."""
    if options.check and options.file is None:
        raise UsageError("--check needs the FILE to compare with")
    return run_with_client(options, _snapshot)


async def _snapshot(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    from dovetail.testing.interface_diff import changes, report
    from dovetail.testing.interface_reader import interface
    from dovetail.testing.snapshot import load_snapshot, save_snapshot

    path = options.file
    if options.check:
        different = changes(load_snapshot(path), await interface(client))
        if different:
            raise CommandFailed("changed", f"The server differs from {path}:\n{report(different)}")
        _print_result(options, f"The server is as {path} says.")
        return
    current = await interface(client)
    if path is None:
        output.show_json(current) if options.format == "json" else output.show_value(current)
        return
    try:
        save_snapshot(current, path)
    except OSError as problem:
        raise CommandFailed("usage", f"{path} cannot be written: {problem.strerror}", USAGE) from None
    _print_result(options, f"Written to {path}.")


def _print_result(options: argparse.Namespace, text: str) -> None:
    if options.format == "json":
        output.show_json({"file": options.file})
    else:
        output.show_text(text)
