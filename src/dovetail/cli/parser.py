"""Command-line parsing: the table of subcommands, and the parser of the one that is called."""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

COMMANDS = {
    "init": "create a server project, with tests",
    "run": "serve a server from a Python file over stdio",
    "serve": "serve a server from a Python file over HTTP or a Unix socket",
    "worker": "run the tasks of a server, apart from the processes that serve it",
    "dev": "run a server file with reload, and try its tools, with the traffic in view",
    "list": "list the tools, resources and prompts of a server",
    "inspect": "summarize a server: tools with types, token cost, warnings and portability",
    "call": "call a tool",
    "tasks": "list, wait for or cancel tasks: calls that go on without you",
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
    "gateway": "serve the servers of a configuration file behind one endpoint",
    "traffic": "show the messages between a running `dovetail host` and its servers",
    "ask": "ask a model that uses your servers one question, for scripts",
    "install": "install a server into another program, such as Claude Desktop or Cursor",
    "uninstall": "take a server out of another program",
    "servers": "show the configured servers, and where they come from",
    "add": "add a server to a configuration file",
    "remove": "remove a server from a configuration file",
    "enable": "enable a server of a configuration file and ask for the inputs it needs",
    "disable": "disable a server of a configuration file",
    "approve": "approve the launches of the servers of a configuration file, which a gateway or a host then starts",
    "import": "import servers from the configuration files of other programs",
    "lock": "write a lockfile of what the configured servers offer, or check them against it",
    "audit": "show, verify or export the audit log",
    "snapshot": "save a server's interface, or compare it with a saved one",
    "migrate": "rewrite a server written for FastMCP or the official SDK, and report what is left",
    "generate-cli": "generate a command line program and a SKILL.md from the tools of a server",
    "shell-completion": "print a completion script for your shell",
    "help": "show the help of a command",
    "version": "show the version",
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
    "inspect": "inspect_server",
    "login": "logins",
    "logout": "logins",
    "accounts": "logins",
    "import": "import_",
    "generate-cli": "generate",
    "init": "generate",
    "version": "help",
    "uninstall": "install",
}
"""Modules of `commands` that are not called like the subcommand."""

MODULE_TARGET = "module:"
"""Beginning of a TARGET that is a module."""

_EXIT_CODES = "0 ok, 1 usage, 3 authorization, 4 unreachable, 5 tool error or not found"
_REQUIRED = "the following arguments are required: "
_WIDTH = 80


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
        """Raise with the message, in one line, and the name of the help."""
        if message.startswith(_REQUIRED):
            message = f"missing {message.removeprefix(_REQUIRED)}"
        end = "" if message.endswith((".", "?")) else "."
        raise UsageError(f"{message}{end} See `{self.prog} --help`.")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Print the help; unlike that of argparse, it does not hide that the output cannot be written."""
        (file or sys.stderr).write(message)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a value that is none of the choices, with the choice that was meant."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = _similar(str(value), choices)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise argparse.ArgumentError(action, f"invalid choice: {value!r} (choose from {', '.join(choices)}){hint}")

    def parse_command(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse; options may stand between positional arguments, and a misspelt option gets a suggestion."""
        options, unknown = self.parse_known_intermixed_args(words)
        for word in unknown:
            self.error(self._unknown_word(word))
        return options

    def _unknown_word(self, word: str) -> str:
        if not word.startswith("-"):
            return f"unexpected argument {word!r}"
        import difflib

        name = word.partition("=")[0]
        near = difflib.get_close_matches(name, list(self._option_string_actions), 1)
        return f"there is no option {name}{f'; did you mean {near[0]}?' if near else ''}"


def load_command(name: str) -> Command:
    """Import the module of a subcommand; the others are not imported, so that start-up stays short."""
    identifier = name.replace("-", "_")
    module = importlib.import_module(f"dovetail.cli.commands.{_SHARED_MODULES.get(name, identifier)}")
    return Command(getattr(module, f"configure_{identifier}"), getattr(module, f"run_{identifier}"))


def command_parser(name: str) -> CommandParser:
    """The parser of one subcommand, with examples in its help."""
    parser = CommandParser(
        prog=f"dovetail {name}",
        description=_sentence(COMMANDS[name]),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    load_command(name).configure(parser)
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if action.nargs == "*":
            # Python 3.11 and 3.12 would name it among the arguments that are missing.
            action.required = False
    parser.usage = parser.usage or _usage(parser)
    parser.epilog = _epilog(name, parser.epilog)
    return parser


def _usage(parser: CommandParser) -> str:
    """The usage in one line: the options are listed below it anyway."""
    words = [parser.prog, "[options]"]
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if not action.option_strings:
            name = str(action.metavar or action.dest)
            words.append({"?": f"[{name}]", "*": f"[{name}…]", "+": f"{name}…"}.get(str(action.nargs), name))
    return " ".join(words)


def _epilog(name: str, text: str | None) -> str:
    """The remark of a command, and its examples."""
    import textwrap

    from .examples import EXAMPLES

    parts = [] if text is None else [textwrap.fill(text, _WIDTH)]
    if name in EXAMPLES:
        parts.append("\n".join(["examples:", *[f"  {example}" for example in EXAMPLES[name]]]))
    return "\n\n".join(parts)


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
    parser.add_argument("-V", "--version", action="store_true", help="show the version and exit")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    return parser


def parse(name: str, words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of a subcommand; options may stand between positional arguments.

    What follows `--` is for a program: a subcommand that takes one says so with the default `takes_program`.
    """
    own, program = list(words), list[str]()
    parser = command_parser(name)
    if parser.get_default("takes_program") and "--" in own:
        # Split by hand, because argparse would drop a second `--`.
        at = own.index("--")
        own, program = own[:at], own[at + 1 :]
    if parser.get_default("takes_target"):
        own = _with_module_target(own, parser.get_default("before_target") or ())
    options = parser.parse_command(own)
    options.after_dashes = program
    return options


def unknown_command(name: str) -> str:
    """The error for a subcommand that does not exist, with a suggestion."""
    import difflib

    near = difflib.get_close_matches(name, list(COMMANDS), 1)
    return f"there is no command {name!r}{f'; did you mean {near[0]}?' if near else ''}"


def option_before_command(words: Sequence[str]) -> str | None:
    """The error for options that precede the subcommand; None if there is no subcommand."""
    command = next((word for word in words if word in COMMANDS), None)
    if command is None:
        return None
    at = words.index(command)
    line = shlex.join(["dovetail", command, *words[at + 1 :], *words[:at]])
    return f"options follow the command: {line}"


def _similar(word: str, choices: Sequence[str]) -> list[str]:
    """The choices that a word resembles, as a whole or in their first part: claude for claude-code."""
    import difflib

    parts = {choice: choice.partition("-")[0] for choice in choices}
    near = difflib.get_close_matches(word, [*choices, *parts.values()], 1)
    return [choice for choice in choices if near and near[0] in (choice, parts[choice])]


def _with_module_target(words: list[str], before: Sequence[str]) -> list[str]:
    """Put the module of `-m MODULE` where the TARGET stands: first, or after a word that is one of `before`."""
    if "-m" not in words or words.index("-m") == len(words) - 1:
        return words
    at = words.index("-m")
    others = [*words[:at], *words[at + 2 :]]
    place = next((number + 1 for number, word in enumerate(others) if word in before), 0)
    return [*others[:place], MODULE_TARGET + words[at + 1], *others[place:]]


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
