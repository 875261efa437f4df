"""The options that every verb with a server has, and the client that they make."""

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
from dovetail.cli.terminal.progress import Screen

if TYPE_CHECKING:
    from dovetail.client.client import Client
    from dovetail.client.targets.http import Credentials

_WEB = {"http": "http", "https": "https", "ws": "http", "wss": "https"}

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

Work = Callable[["Client", argparse.Namespace, Screen], Awaitable[int | None]]


def add_target(parser: argparse.ArgumentParser) -> None:
    """Where the server is."""
    parser.add_argument(
        "target",
        metavar="TARGET",
        help='a command in quotes ("python server.py"), a file: server.py[:object], or a URL (https:, ws:, unix:)',
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """How to talk to it."""
    group = parser.add_argument_group("the server")
    group.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="set for the server's process")
    group.add_argument("--cwd", metavar="DIR", help="where the server's process runs")
    group.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="send with every request")
    group.add_argument("--token-env", metavar="VARIABLE", help="the environment variable that holds a bearer token")
    group.add_argument("--account", metavar="NAME", help="the login to use, of several at this server")
    group.add_argument("--revision", metavar="DATE", help="speak this protocol revision and no other")
    group.add_argument(
        "--timeout", type=_seconds, default=30.0, metavar="SECONDS", help="patience (default 30; 0: endless)"
    )
    group.add_argument("--root", action="append", default=[], metavar="PATH", help="let the server know of a root")
    group.add_argument("--sample", action="store_true", help="answer yourself what the server asks a model")
    add_output(parser)
    parser.add_argument("--trace", action="store_true", help="show the JSON-RPC messages on stderr")
    parser.add_argument("--log", choices=LEVELS, metavar="LEVEL", help="show what the server logs from this level on")


def add_output(parser: argparse.ArgumentParser) -> None:
    """How to print."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="for people, or one JSON object for scripts"
    )


def with_client(options: argparse.Namespace, work: Work) -> int:
    """Connect as the options say, do the work, and give its exit code.

    Ctrl-C cancels the work: the server is told of it and ended before the command ends.
    """

    async def main() -> int:
        with Screen(sys.stderr) as screen:
            async with _client(options, screen) as client:
                code = await work(client, options, screen)
        return OK if code is None else code

    return asyncio.run(main())


def find_target(word: str) -> str | list[str]:
    """A Python file runs through `dovetail run`; anything else is the client's to understand."""
    from .load_server import split_object

    path, _ = split_object(word)
    if path.endswith(".py") and os.path.isfile(path):
        return [sys.executable, "-P", "-m", "dovetail.cli", "run", os.path.abspath(path) + word[len(path) :]]
    return word


def _client(options: argparse.Namespace, screen: Screen) -> Client:
    from dovetail.cli.terminal.prompt_forms import Asking
    from dovetail.cli.terminal.terminal import Terminal, someone_there
    from dovetail.client.client import Client

    from .values import read_pairs

    # Where nobody can be asked the server is told so, and can do without or say what it needs.
    asking = Asking(Terminal(screen)) if someone_there() else None
    if options.sample and asking is None:
        raise UsageError("--sample needs a terminal to ask at")
    return Client(
        find_target(options.target),
        revision=options.revision,
        timeout=options.timeout or None,
        env=read_pairs(options.env) or None,
        cwd=options.cwd,
        headers=read_pairs(options.header, "NAME=VALUE") or None,
        auth=_credentials(options),
        on_elicit=asking.elicit if asking is not None else None,
        on_sample=asking.sample if asking is not None and options.sample else None,
        roots=options.root or None,
        on_log=_show_log(screen) if options.log else None,
        log_level=options.log,
        trace=_show_trace(screen) if options.trace else None,
    )


def _credentials(options: argparse.Namespace) -> Credentials | None:
    """A token, or the login of an account; without either the client looks for a login by itself."""
    if options.account is None:
        return None if options.token_env is None else from_environment("--token-env", options.token_env)
    if options.token_env is not None:
        raise UsageError("--account and --token-env are two ways to get in: take one")
    from dovetail.client.auth.auto_login import AutoLogin
    from dovetail.transports.http.contract import HttpOptions

    check_server(options.target)
    return AutoLogin(HttpOptions(), options.account)


def from_environment(option: str, variable: str) -> str:
    """A secret from the environment: what stands in the command itself, everybody on the machine can read."""
    secret = os.environ.get(variable)
    if not secret:
        raise UsageError(f"{option} {variable}: there is no such variable, or it is empty")
    return secret


def check_server(target: str) -> str:
    """The address of a server that one can log in to; WebSockets are opened by HTTP."""
    scheme, sign, rest = target.partition("://")
    web = _WEB.get(scheme.lower()) if sign else None
    if web is None:
        raise UsageError(f"there are logins at servers behind a URL (https:, wss:), and {target!r} is none")
    from dovetail.client.targets.http import check_url

    check_url(target)
    return f"{web}://{rest.partition('#')[0]}"


def _show_trace(screen: Screen) -> Callable[[Literal["sent", "received"], bytes], None]:
    started = time.monotonic()
    arrows = {"sent": "-->", "received": "<--"}

    def show(direction: Literal["sent", "received"], line: bytes) -> None:
        at = (time.monotonic() - started) * 1000
        screen.line(f"{at:7.1f} ms {arrows[direction]} {line.decode(errors='replace')}")

    return show


def _show_log(screen: Screen) -> Callable[[str, Any, str | None], None]:
    import msgspec

    def show(level: str, data: Any, logger: str | None) -> None:
        text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
        screen.line(f"[{level}]{f' {logger}:' if logger else ''} {text}")

    return show


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError("a number of seconds, please")
    return seconds
