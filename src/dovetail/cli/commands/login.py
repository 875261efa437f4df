"""`dovetail login TARGET`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from functools import partial

from dovetail.cli import output
from dovetail.cli.exit_status import OK
from dovetail.cli.options.client_options import add_output, check_server, from_environment
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import Screen
from dovetail.cli.terminal.terminal import Closed, Terminal, someone_there


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("url", metavar="TARGET", help="the URL of the server (https:, wss:)")
    parser.add_argument("--account", default="", metavar="NAME", help="a name, to have several logins at one server")
    parser.add_argument("--scope", action="append", default=[], metavar="SCOPE", help="a permission to ask for")
    parser.add_argument("--client-id", metavar="ID", help="a client that was registered by hand")
    parser.add_argument(
        "--client-secret-env", metavar="VARIABLE", help="the environment variable that holds the client's secret"
    )
    parser.add_argument("--redirect-uri", metavar="URI", help="where the login comes back to, on this machine")
    add_output(parser)
    parser.epilog = (
        "Without a screen the address of the login is printed. If you open it on another machine, paste the address "
        "that the browser ends at."
    )


def run(options: argparse.Namespace) -> int:
    """Log in."""
    with Screen(sys.stderr) as screen:
        return asyncio.run(_login(options, Terminal(screen) if someone_there() else None))


async def _login(options: argparse.Namespace, terminal: Terminal | None) -> int:
    from dovetail.auth.challenge import NO_CHALLENGE
    from dovetail.auth.client_authentication import OAuthClient
    from dovetail.auth.errors import AuthorizationFailed
    from dovetail.client.auth.accounts import list_logins
    from dovetail.client.auth.browser_login import loopback
    from dovetail.client.auth.challenge_probe import probe_challenge
    from dovetail.client.auth.grants import BrowserLogin
    from dovetail.client.auth.oauth import OAuth
    from dovetail.client.auth.token_store import default_tokens

    url, store, variable = check_server(options.url), default_tokens(), options.client_secret_env
    secret = None if variable is None else from_environment("--client-secret-env", variable)
    if secret is not None and options.client_id is None:
        raise UsageError("--client-secret-env goes with the --client-id that it belongs to")
    given = None if options.client_id is None else OAuthClient(id=options.client_id, secret=secret)
    doorway = partial(loopback, options.redirect_uri, pasted=None if terminal is None else partial(_pasted, terminal))
    oauth = OAuth(
        BrowserLogin(doorway, name="Dovetail", client=given),
        store=store,
        account=options.account,
        scopes=[scope for words in options.scope for scope in words.split()],
    )
    wanted = await probe_challenge(url)
    try:
        await oauth.login_anew(url, wanted or NO_CHALLENGE)
    except AuthorizationFailed as problem:
        if wanted is None:
            raise AuthorizationFailed(f"{url} lets everybody in, and offers no login ({problem})") from problem
        raise
    [login] = [each for each in await list_logins(store, url) if each.account == options.account]
    if options.format == "json":
        output.show_json(login)
    else:
        who = f" as {login.user}" if login.user else ""
        named = f", account {login.account}" if login.account else ""
        print(output.printable(f"Logged in at {login.server}{who}{named}."), file=sys.stdout)
    return OK


async def _pasted(terminal: Terminal) -> str:
    """A line of the user's; who ends the input may still log in where the answer comes back by itself."""
    try:
        return await terminal.ask("")
    except Closed:
        await asyncio.Event().wait()
        raise
