"""`dovetail help [COMMAND]` and `dovetail version`."""

from __future__ import annotations

import argparse

from dovetail.cli.exit_status import OK
from dovetail.cli.parser import COMMANDS, command_parser, main_parser, unknown_command


def configure_help(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="a command (default: the list of all)")


def run_help(options: argparse.Namespace) -> int:
    """Print the help of a command, or of all."""
    name = options.command
    if name is not None and name not in COMMANDS:
        main_parser().error(unknown_command(name))
    print((main_parser() if name is None else command_parser(name)).format_help(), end="")
    return OK


def configure_version(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run_version(options: argparse.Namespace) -> int:
    """Print the version."""
    from dovetail import __version__

    print(f"dovetail {__version__}")
    return OK
