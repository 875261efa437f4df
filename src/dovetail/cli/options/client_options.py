"""Options of subcommands that connect to a server, and the client built from them."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from dovetail.cli.exit_status import OK
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay

if TYPE_CHECKING:
    from dovetail.client.client import Client
    from dovetail.client.targets.http import Credentials

_WEB = {"http": "http", "https": "https", "ws": "http", "wss": "https"}

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

Work = Callable[["Client", argparse.Namespace, ProgressDisplay], Awaitable[int | None]]


def add_target_argument(parser: argparse.ArgumentParser) -> None:
    """Add the TARGET argument."""
    parser.add_argument(
        "target",
        metavar="TARGET",
        help='a command in quotes ("python server.py"), a file: server.py[:object], or a URL (https:, ws:, unix:)',
    )


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the connection, the output and the trace."""
    group = parser.add_argument_group("the server")
    group.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="set for the server's process")
    group.add_argument("--cwd", metavar="DIR", help="where the server's process runs")
    group.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="send with every request")
    group.add_argument("--token-env", metavar="VARIABLE", help="the environment variable that holds a bearer token")
    group.add_argument("--account", metavar="NAME", help="the login to use, of several at this server")
    group.add_argument("--revision", metavar="DATE", help="speak this protocol revision and no other")
    group.add_argument(
        "--timeout", type=_seconds, default=30.0, metavar="SECONDS", help="timeout of a request (default 30; 0: none)"
    )
    group.add_argument("--root", action="append", default=[], metavar="PATH", help="a root to offer to the server")
    group.add_argument("--sample", action="store_true", help="answer sampling requests yourself, in place of a model")
    add_format_option(parser)
    parser.add_argument("--trace", action="store_true", help="show the JSON-RPC messages on stderr")
    parser.add_argument(
        "--log", choices=LEVELS, metavar="LEVEL", help="show log messages of the server from this level on"
    )


def add_format_option(parser: argparse.ArgumentParser) -> None:
    """Add `--format`."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="text for users, or one JSON object for scripts"
    )


def run_with_client(options: argparse.Namespace, work: Work) -> int:
    """Connect as the options say, run `work`, and return its exit code.

    Ctrl-C cancels the work: the request is cancelled and the server stopped before the command exits.
    """

    async def main() -> int:
        with ProgressDisplay(sys.stderr) as display:
            async with _client(options, display) as client:
                code = await work(client, options, display)
        return OK if code is None else code

    return asyncio.run(main())


def resolve_target_word(word: str) -> str | list[str]:
    """The target of a client: a Python file runs through `dovetail run`, anything else is passed on."""
    from .load_server import split_object

    path, _ = split_object(word)
    if path.endswith(".py") and os.path.isfile(path):
        return [sys.executable, "-P", "-m", "dovetail.cli", "run", os.path.abspath(path) + word[len(path) :]]
    return word


def _client(options: argparse.Namespace, display: ProgressDisplay) -> Client:
    from dovetail.cli.terminal.prompt_forms import ElicitationPrompts
    from dovetail.cli.terminal.terminal import Terminal, is_interactive
    from dovetail.client.client import Client

    from .values import read_pairs

    # Without a terminal the client does not declare elicitation, so that the server knows.
    prompts = ElicitationPrompts(Terminal(display)) if is_interactive() else None
    if options.sample and prompts is None:
        raise UsageError("--sample needs a terminal")
    return Client(
        resolve_target_word(options.target),
        revision=options.revision,
        timeout=options.timeout or None,
        env=read_pairs(options.env) or None,
        cwd=options.cwd,
        headers=read_pairs(options.header, "NAME=VALUE") or None,
        auth=_credentials(options),
        on_elicit=prompts.elicit if prompts is not None else None,
        on_sample=prompts.sample if prompts is not None and options.sample else None,
        roots=options.root or None,
        on_log=_show_log(display) if options.log else None,
        log_level=options.log,
        trace=_show_trace(display) if options.trace else None,
    )


def _credentials(options: argparse.Namespace) -> Credentials | None:
    """A bearer token, or the login of an account; without either the client uses a stored login, if any."""
    if options.account is None:
        return None if options.token_env is None else read_secret_variable("--token-env", options.token_env)
    if options.token_env is not None:
        raise UsageError("--account and --token-env are alternatives: use one")
    from dovetail.client.auth.auto_login import AutoLogin
    from dovetail.transports.http.contract import HttpOptions

    login_url(options.target)
    return AutoLogin(HttpOptions(), options.account)


def read_secret_variable(option: str, variable: str) -> str:
    """Read a secret from an environment variable: other users can read the arguments of a process."""
    secret = os.environ.get(variable)
    if not secret:
        raise UsageError(f"{option} {variable}: the variable is not set or empty")
    return secret


def login_url(target: str) -> str:
    """The http(s) URL under which logins for a target are stored; a WebSocket has those of its http(s) URL."""
    scheme, sign, rest = target.partition("://")
    web = _WEB.get(scheme.lower()) if sign else None
    if web is None:
        raise UsageError(f"{target!r} has no login: only servers at a URL (https:, wss:) have")
    from dovetail.client.targets.http import check_url

    check_url(target)
    return f"{web}://{rest.partition('#')[0]}"


def _show_trace(display: ProgressDisplay) -> Callable[[Literal["sent", "received"], bytes], None]:
    started = time.monotonic()
    arrows = {"sent": "-->", "received": "<--"}

    def show(direction: Literal["sent", "received"], line: bytes) -> None:
        at = (time.monotonic() - started) * 1000
        display.line(f"{at:7.1f} ms {arrows[direction]} {line.decode(errors='replace')}")

    return show


def _show_log(display: ProgressDisplay) -> Callable[[str, Any, str | None], None]:
    import msgspec

    def show(level: str, data: Any, logger: str | None) -> None:
        text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
        display.line(f"[{level}]{f' {logger}:' if logger else ''} {text}")

    return show


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError("must be a number of seconds")
    return seconds
