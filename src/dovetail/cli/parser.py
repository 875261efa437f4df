"""Command-line parsing: the table of subcommands, and the parser of the one that is called."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

COMMANDS = {
    "run": "serve a server from a Python file over stdio",
    "serve": "serve a server from a Python file over HTTP or a Unix socket",
    "list": "list the tools, resources and prompts of a server",
    "call": "call a tool",
    "read": "read a resource",
    "prompt": "get a prompt with its arguments filled in",
    "complete": "complete an argument of a prompt or a resource template",
    "watch": "print changes at a server as they happen",
    "ping": "check that a server responds, and print its name and version",
    "dev-auth": "run an authorization server for development",
    "login": "log in to a server at a URL, through the browser",
    "logout": "delete a login and revoke its tokens",
    "accounts": "list the stored logins",
    "host": "chat with a model that uses your servers",
    "ask": "ask a model that uses your servers one question, for scripts",
    "add": "add a server to a configuration file",
    "remove": "remove a server from a configuration file",
    "enable": "enable a server of a configuration file and ask for the inputs it needs",
    "disable": "disable a server of a configuration file",
    "import": "import servers from the configuration files of other programs",
    "lock": "write a lockfile of what the configured servers offer, or check them against it",
    "audit": "show, verify or export the audit log",
    "snapshot": "save a server's interface, or compare it with a saved one",
    "shell-completion": "print a completion script for your shell",
}
"""Subcommands, each with its line of help."""

_SHARED_MODULES = {
    "remove": "config_entries",
    "enable": "config_entries",
    "disable": "config_entries",
    "run": "serve",
    "read": "inspect",
    "prompt": "inspect",
    "complete": "inspect",
    "ping": "inspect",
    "login": "logins",
    "logout": "logins",
    "accounts": "logins",
    "import": "import_",
}
"""Modules of `commands` that are not called like the subcommand."""

_TAKES_PROGRAM = frozenset({"add"})
"""Subcommands that take a program and its arguments after `--`."""

_EXIT_CODES = "0 ok, 1 usage, 3 authorization, 4 unreachable, 5 tool error or not found"


class Command(NamedTuple):
    """A subcommand: `configure_NAME` and `run_NAME` of its module."""

    configure: Callable[[argparse.ArgumentParser], None]
    """Adds the arguments."""
    run: Callable[[argparse.Namespace], int]
    """Runs the subcommand and returns the exit code."""


class UsageError(Exception):
    """Invalid command line."""


class CommandParser(argparse.ArgumentParser):
    """A parser that raises `UsageError` instead of printing and exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise with the message and a usage line."""
        raise UsageError(f"{message}\n{self.format_usage().strip()}")


def load_command(name: str) -> Command:
    """Import the module of a subcommand; the others are not imported, so that start-up stays short."""
    identifier = name.replace("-", "_")
    module = importlib.import_module(f"dovetail.cli.commands.{_SHARED_MODULES.get(name, identifier)}")
    return Command(getattr(module, f"configure_{identifier}"), getattr(module, f"run_{identifier}"))


def command_parser(name: str) -> CommandParser:
    """The parser of one subcommand."""
    parser = CommandParser(prog=f"dovetail {name}", description=_sentence(COMMANDS[name]), allow_abbrev=False)
    load_command(name).configure(parser)
    return parser


def main_parser() -> CommandParser:
    """The parser of what precedes the subcommand."""
    width = max(map(len, COMMANDS)) + 2
    commands = "\n".join(f"  {name:<{width}}{text}" for name, text in COMMANDS.items())
    parser = CommandParser(
        prog="dovetail",
        usage="dovetail COMMAND ... | dovetail COMMAND --help",
        description="Serve, call and inspect servers of the Model Context Protocol.",
        epilog=f"commands:\n{commands}\n\nexit codes: {_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    return parser


def parse(name: str, words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of a subcommand; options may stand between positional arguments."""
    own, program = list(words), list[str]()
    if name in _TAKES_PROGRAM and "--" in own:
        # Split by hand, because argparse would drop a second `--`.
        at = own.index("--")
        own, program = own[:at], own[at + 1 :]
    options = command_parser(name).parse_intermixed_args(own)
    options.after_dashes = program
    return options


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
