"""Options of subcommands that connect to a server, and the client built from them."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Literal

from dovetail.cli.exit_status import OK, explain
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay
from dovetail.cli.terminal.terminal import is_interactive

from .answers import ScriptedAnswers, add_answer_options, read_answers, with_hint
from .numbers import seconds, whole_number

if TYPE_CHECKING:
    from dovetail.client.client import Client
    from dovetail.client.targets.http import Credentials

_WEB = {"http": "http", "https": "https", "ws": "http", "wss": "https"}

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

Work = Callable[["Client", argparse.Namespace, ProgressDisplay], Awaitable[int | None]]


def add_client_options(parser: argparse.ArgumentParser, *, output: bool = True) -> None:
    """Add the options of the connection, the output and the trace; without `output` the command has an `-o` itself."""
    group = parser.add_argument_group("the server")
    group.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="set for the server's process")
    group.add_argument(
        "--inherit-env", action="store_true", help="give the server's process all our environment variables"
    )
    group.add_argument("--cwd", metavar="DIR", help="where the server's process runs")
    group.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="send with every request")
    group.add_argument("--token-env", metavar="VARIABLE", help="the environment variable that holds a bearer token")
    group.add_argument("--account", metavar="NAME", help="the login to use, of several at this server")
    group.add_argument("--revision", metavar="DATE", help="speak this protocol revision and no other")
    group.add_argument(
        "--timeout", type=seconds, default=30.0, metavar="SECONDS", help="timeout of a request (default 30; 0: none)"
    )
    group.add_argument(
        "--max-message-bytes",
        type=whole_number("the limit"),
        metavar="N",
        help="longest message to accept from the server (default 64 MiB)",
    )
    group.add_argument("--root", action="append", default=[], metavar="PATH", help="a root to offer to the server")
    group.add_argument("--yes", action="store_true", help="start a server of a project's file without asking")
    add_answer_options(parser)
    add_format_option(parser)
    if output:
        add_output_option(parser)
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="write nothing to stderr but errors, --trace and --log"
    )
    parser.add_argument(
        "--trace", action="store_true", help="show the JSON-RPC messages on stderr, and all of the server's stderr"
    )
    parser.add_argument(
        "--log", choices=LEVELS, metavar="LEVEL", help="show log messages of the server from this level on"
    )


def add_format_option(parser: argparse.ArgumentParser) -> None:
    """Add `--format`."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="text for users, or one JSON object for scripts"
    )


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """Add `--output`; `run_command` sends stdout there."""
    parser.add_argument("-o", "--output", dest="output_file", metavar="FILE", help="write the result there")


def run_with_client(options: argparse.Namespace, work: Work) -> int:
    """Connect as the options say, run `work`, and return its exit code.

    Ctrl-C cancels the work: the request is cancelled and the server stopped before the command exits. With the option
    `always_asks` the server may ask although nobody is there: a question that has no answer is an error of the command.
    """
    answers = read_answers(options)
    if answers is None and getattr(options, "always_asks", False) and not is_interactive():
        answers = ScriptedAnswers({})

    async def main() -> int:
        with ProgressDisplay(sys.stderr, quiet=options.quiet) as display:
            prepared = await _client(options, display, answers)
            async with contextlib.AsyncExitStack() as stack:
                async with display.activity(f"Connecting to {options.target}"):
                    client = await stack.enter_async_context(prepared)
                with _questions(answers, client, display):
                    code = await work(client, options, display)
        return OK if code is None else code

    return asyncio.run(main())


@contextlib.contextmanager
def _questions(answers: ScriptedAnswers | None, client: Client, display: ProgressDisplay) -> Generator[None]:
    """Report a question of the server that has no answer: the work is cancelled then."""
    from dovetail.protocol.errors import DovetailError

    try:
        yield
    except asyncio.CancelledError:
        if answers is None or answers.problem is None:
            raise
        raise answers.problem from None
    except DovetailError as problem:
        if answers is not None or is_interactive() or (report := explain(problem)) is None:
            raise
        raise with_hint(problem, client.revision, report) or problem from None
    for name in [] if answers is None else answers.unused():
        display.note(f"The server did not ask for {name}, so this answer was not used.")


async def _client(options: argparse.Namespace, display: ProgressDisplay, answers: ScriptedAnswers | None) -> Client:
    from dovetail.cli.terminal.prompt_forms import ElicitationPrompts
    from dovetail.cli.terminal.terminal import Terminal
    from dovetail.client.client import Client
    from dovetail.transports.base import MAX_RECEIVED

    from .targets import TargetSearch, client_target
    from .terminal_prompts import TerminalPrompts
    from .values import read_pairs

    # Without a terminal and without answers the client does not declare elicitation, so that the server knows.
    prompts = ElicitationPrompts(Terminal(display)) if is_interactive() else None
    on_elicit = None if prompts is None else prompts.elicit
    if answers is not None:
        answers.prompts, answers.work, on_elicit = prompts, asyncio.current_task(), answers.elicit
    if options.sample and prompts is None:
        raise UsageError("--sample needs a terminal")
    env, auth = read_pairs(options.env), _credentials(options)
    on_stderr = display.line if options.trace else getattr(options, "on_stderr", _discard if options.quiet else None)
    found = TargetSearch(options.after_dashes).find(options.target)
    options.starts_server = not (isinstance(found, str) or (not isinstance(found, list) and found.has_url))
    target = await client_target(
        found,
        TerminalPrompts(display),
        env=env,
        cwd=options.cwd,
        inherit_env=options.inherit_env,
        on_stderr=on_stderr,
        arguments=options.after_dashes,
        yes=options.yes,
    )
    return Client(
        target,
        revision=options.revision,
        timeout=options.timeout or None,
        env=env or None,
        inherit_env=options.inherit_env,
        cwd=options.cwd,
        max_message_bytes=options.max_message_bytes or MAX_RECEIVED,
        headers=read_pairs(options.header, "NAME=VALUE") or None,
        auth=auth,
        on_elicit=on_elicit,
        elicit_modes=("form",) if prompts is None else ("form", "url"),
        on_sample=prompts.sample if prompts is not None and options.sample else None,
        roots=options.root or None,
        on_log=_show_log(display) if options.log else None,
        log_level=options.log,
        trace=_show_trace(display) if options.trace else None,
        on_stderr=on_stderr,
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
    from .targets import url_of

    target = url_of(target) or target
    scheme, sign, rest = target.partition("://")
    web = _WEB.get(scheme.lower()) if sign else None
    if web is None:
        raise UsageError(f"{target!r} has no login: only servers at a URL (https:, wss:) have")
    from dovetail.client.targets.http import check_url

    check_url(target)
    return f"{web}://{rest.partition('#')[0]}"


def _discard(line: str) -> None:
    """Drop a line that the server writes to stderr; the last ones are still in the error if it dies."""


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
