"""`dovetail login TARGET`.

`dovetail logout TARGET`.

`dovetail accounts [TARGET]`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.exit_status import OK, CommandFailed
from dovetail.cli.options.client_options import (
    add_format_option,
    add_output_option,
    login_url,
    read_secret_variable,
)
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay
from dovetail.cli.terminal.terminal import InputClosed, Terminal, is_interactive

if TYPE_CHECKING:
    from dovetail.client.auth.accounts import StoredLogin


def configure_login(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("url", metavar="TARGET", help="the URL of the server (https:, wss:)")
    parser.add_argument("--account", default="", metavar="NAME", help="a name, to have several logins at one server")
    parser.add_argument("--scope", action="append", default=[], metavar="SCOPE", help="a scope to request")
    parser.add_argument("--client-id", metavar="ID", help="a client id that was registered manually")
    parser.add_argument(
        "--client-secret-env", metavar="VARIABLE", help="the environment variable that holds the client's secret"
    )
    parser.add_argument("--redirect-uri", metavar="URI", help="the redirect URI, on this machine")
    add_format_option(parser)
    parser.epilog = (
        "Without a browser the address of the login page is printed. If you open it on another machine, paste the "
        "address that the browser ends at."
    )


def run_login(options: argparse.Namespace) -> int:
    """Log in."""
    with ProgressDisplay(sys.stderr) as display:
        return asyncio.run(_login(options, Terminal(display) if is_interactive() else None))


async def _login(options: argparse.Namespace, terminal: Terminal | None) -> int:
    from dovetail.auth.challenge import NO_CHALLENGE
    from dovetail.auth.client_authentication import OAuthClient
    from dovetail.auth.errors import AuthorizationFailed, LoginNotOffered
    from dovetail.client.auth.accounts import list_logins
    from dovetail.client.auth.browser_login import loopback
    from dovetail.client.auth.challenge_probe import probe_challenge, probe_refusal
    from dovetail.client.auth.grants import BrowserLogin
    from dovetail.client.auth.oauth import OAuth
    from dovetail.client.auth.token_store import default_tokens

    url, store, variable = login_url(options.url), default_tokens(), options.client_secret_env
    secret = None if variable is None else read_secret_variable("--client-secret-env", variable)
    if secret is not None and options.client_id is None:
        raise UsageError("--client-secret-env needs --client-id")
    given = None if options.client_id is None else OAuthClient(id=options.client_id, secret=secret)
    make_redirect = partial(
        loopback, options.redirect_uri, pasted=None if terminal is None else partial(_pasted, terminal)
    )
    oauth = OAuth(
        BrowserLogin(make_redirect, name="Dovetail", client=given),
        store=store,
        account=options.account,
        scopes=[scope for words in options.scope for scope in words.split()],
    )
    wanted = await probe_challenge(url)
    try:
        await oauth.login_again(url, wanted or NO_CHALLENGE)
    except AuthorizationFailed as problem:
        if isinstance(problem, LoginNotOffered) and (refusal := await probe_refusal(url)) is not None:
            raise AuthorizationFailed(f"No login is possible: {refusal}") from problem
        if wanted is None:
            raise AuthorizationFailed(f"{url} needs no login and offers none ({problem})") from problem
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
    """Read the pasted address; after end of input keep waiting, as the browser may still redirect to this machine."""
    try:
        return await terminal.prompt("")
    except InputClosed:
        await asyncio.Event().wait()
        raise


def configure_logout(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("url", metavar="TARGET", help="the URL of the server")
    parser.add_argument("--account", metavar="NAME", help="the login to delete, if there are several for this server")
    parser.add_argument("--all", action="store_true", help="delete all logins at this server")
    add_format_option(parser)


def run_logout(options: argparse.Namespace) -> int:
    """Log out."""
    if options.all and options.account is not None:
        raise UsageError("--all and --account exclude each other")
    return asyncio.run(_logout(options))


async def _logout(options: argparse.Namespace) -> int:
    from dovetail.auth.errors import AuthorizationFailed
    from dovetail.client.auth.accounts import account_labels, default_account
    from dovetail.client.auth.oauth import OAuth
    from dovetail.client.auth.token_store import default_tokens

    url, store = login_url(options.url), default_tokens()
    there = await account_labels(store, url)
    if options.all:
        wanted = there
    else:
        wanted = [options.account if options.account is not None else await default_account(store, url)]
    if not there or not set(wanted) <= set(there):
        raise CommandFailed("not_found", f"There is no such login at {url}; `dovetail accounts` lists them.")
    for label in wanted:
        try:
            await OAuth(store=store, account=label).logout(url)
        except AuthorizationFailed as problem:
            warning = f"The login is deleted here, but the authorization server could not revoke it: {problem}"
            print(output.printable(warning), file=sys.stderr)
    if options.format == "json":
        output.show_json({"server": url, "accounts": wanted})
    else:
        named = [f", account {label}" if label else "" for label in wanted]
        output.show_text("\n".join(f"Logged out at {url}{name}." for name in named))
    return OK


_COLUMNS = ("server", "account", "user", "issuer", "token", "scopes")


def configure_accounts(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("url", nargs="?", metavar="TARGET", help="the URL of a server (default: all)")
    add_format_option(parser)
    add_output_option(parser)


def run_accounts(options: argparse.Namespace) -> int:
    """List the logins; never prints a token."""
    from dovetail.client.auth.accounts import list_logins
    from dovetail.client.auth.token_store import default_tokens

    url = None if options.url is None else login_url(options.url)
    logins = asyncio.run(list_logins(default_tokens(), url))
    if options.format == "json":
        output.show_json(logins)
    elif logins:
        output.show_table(None, _COLUMNS, [_row(login) for login in logins])
    else:
        output.show_text("There are no logins." if url is None else f"There is no login at {url}.")
    return OK


def _row(login: StoredLogin) -> list[str]:
    name = login.account + (" (default)" if login.default else "")
    return [login.server, name.strip(), login.user or "", login.issuer, _token(login), " ".join(login.scopes)]


def _token(login: StoredLogin) -> str:
    """The expiry of the token, and whether it is refreshed automatically."""
    if login.expires_at is None:
        expiry = "until revoked"
    else:
        when = datetime.fromtimestamp(login.expires_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        expiry = f"{'expired' if login.expires_at <= time.time() else 'until'} {when}"
    return f"{expiry}, refreshed automatically" if login.renewable else expiry
