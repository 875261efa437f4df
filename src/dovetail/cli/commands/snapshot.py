"""`dovetail snapshot TARGET [FILE]`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.exit_status import USAGE, Failed
from dovetail.cli.options.client_options import add_options, add_target, with_client
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import Screen

if TYPE_CHECKING:
    from dovetail.client.client import Client


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_target(parser)
    parser.add_argument("file", nargs="?", metavar="FILE", help="where to write it (default: stdout)")
    parser.add_argument("--check", action="store_true", help="compare the server with FILE and change nothing")
    add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Write the snapshot, or compare with it."""
    if options.check and options.file is None:
        raise UsageError("--check needs the FILE to compare with")
    return with_client(options, _snapshot)


async def _snapshot(client: Client, options: argparse.Namespace, screen: Screen) -> None:
    from dovetail.testing.interface import interface
    from dovetail.testing.interface_diff import changes, report
    from dovetail.testing.snapshot import load_snapshot, save_snapshot

    path = options.file
    if options.check:
        different = changes(load_snapshot(path), await interface(client))
        if different:
            raise Failed("changed", f"The server differs from {path}:\n{report(different)}")
        _tell(options, f"The server is as {path} says.")
        return
    found = await interface(client)
    if path is None:
        output.show_json(found) if options.format == "json" else output.show_value(found)
        return
    try:
        save_snapshot(found, path)
    except OSError as problem:
        raise Failed("usage", f"{path} cannot be written: {problem.strerror}", USAGE) from None
    _tell(options, f"Written to {path}.")


def _tell(options: argparse.Namespace, text: str) -> None:
    if options.format == "json":
        output.show_json({"file": options.file})
    else:
        output.show_text(text)
