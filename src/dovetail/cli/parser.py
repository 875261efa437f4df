"""What the command can do: the verbs, and the parser of the one that is wanted."""

from __future__ import annotations

import argparse
import importlib
import keyword
from collections.abc import Sequence
from typing import NoReturn, Protocol, cast

VERBS = {
    "run": "serve a server from a Python file over stdio",
    "serve": "serve a server from a Python file over HTTP, or at a Unix socket",
    "list": "show the tools, resources and prompts of a server",
    "call": "call a tool",
    "read": "read a resource",
    "prompt": "get a prompt, filled in",
    "complete": "complete an argument of a prompt or a resource template",
    "watch": "show changes at a server as they happen",
    "ping": "see whether a server answers, and who it is",
    "dev-auth": "run an authorization server for development",
    "login": "log in to a server behind a URL, through the browser",
    "logout": "forget a login, and have it revoked",
    "accounts": "show the logins that there are",
    "host": "talk to a model that uses your servers, at the terminal",
    "ask": "ask a model that uses your servers one question, for scripts",
    "add": "add a server to a configuration file",
    "remove": "remove a server from a configuration file",
    "enable": "let a server of a configuration file be started, and ask for what it needs",
    "disable": "keep a server of a configuration file from being started",
    "import": "take over servers from the files of other programs",
    "lock": "write down what the servers of a configuration offer, or compare them with that",
    "audit": "look at the record of what was decided and done, check it, or copy it out",
    "snapshot": "write down a server's interface, or compare it with what was written down",
    "shell-completion": "print the code that lets a shell complete this command",
}

_TAKES_COMMAND = frozenset({"add"})
"""Verbs with a command of somebody else after `--`."""

_EXIT_CODES = "0 ok, 1 usage, 3 authorization, 4 unreachable, 5 tool error or not found"


class Verb(Protocol):
    """What the file of a verb holds."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the verb's arguments."""
        ...

    def run(self, options: argparse.Namespace) -> int:
        """Do it; the exit code."""
        ...


class UsageError(Exception):
    """The command was written in a way that it does not understand."""


class Parser(argparse.ArgumentParser):
    """A parser that leaves it to the command how to complain."""

    def error(self, message: str) -> NoReturn:
        """Complain with a usage line."""
        raise UsageError(f"{message}\n{self.format_usage().strip()}")


def load_verb(name: str) -> Verb:
    """The file of a verb."""
    module = name.replace("-", "_") + ("_" if keyword.iskeyword(name) else "")
    return cast("Verb", importlib.import_module(f"dovetail.cli.commands.{module}"))


def verb_parser(name: str) -> Parser:
    """The parser of one verb; the others are not even imported."""
    parser = Parser(prog=f"dovetail {name}", description=_sentence(VERBS[name]), allow_abbrev=False)
    load_verb(name).configure(parser)
    return parser


def top_parser() -> Parser:
    """The parser of what stands before the verb."""
    width = max(map(len, VERBS)) + 2
    verbs = "\n".join(f"  {name:<{width}}{text}" for name, text in VERBS.items())
    parser = Parser(
        prog="dovetail",
        usage="dovetail VERB ... | dovetail VERB --help",
        description="Serve, call and inspect servers of the Model Context Protocol.",
        epilog=f"verbs:\n{verbs}\n\nexit codes: {_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="show the version and end")
    parser.add_argument("verb", nargs="?", help=argparse.SUPPRESS)
    return parser


def parse(name: str, words: Sequence[str]) -> argparse.Namespace:
    """The options of a verb; options may stand between its arguments."""
    own, command = list(words), list[str]()
    if name in _TAKES_COMMAND and "--" in own:
        # Left as it is, word by word: argparse would drop a second `--`.
        at = own.index("--")
        own, command = own[:at], own[at + 1 :]
    options = verb_parser(name).parse_intermixed_args(own)
    options.after_dashes = command
    return options


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
