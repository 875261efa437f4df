"""`dovetail logout TARGET`."""

from __future__ import annotations

import argparse
import asyncio
import sys

from dovetail.cli import output
from dovetail.cli.exit_status import OK, Failed
from dovetail.cli.options.client_options import add_output, check_server
from dovetail.cli.parser import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("url", metavar="TARGET", help="the URL of the server")
    parser.add_argument("--account", metavar="NAME", help="the login to forget, of several at this server")
    parser.add_argument("--all", action="store_true", help="forget all logins at this server")
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Log out."""
    if options.all and options.account is not None:
        raise UsageError("--all and --account do not go together")
    return asyncio.run(_logout(options))


async def _logout(options: argparse.Namespace) -> int:
    from dovetail.auth.errors import AuthorizationFailed
    from dovetail.client.auth.accounts import account_labels, default_account
    from dovetail.client.auth.oauth import OAuth
    from dovetail.client.auth.token_store import default_tokens

    url, store = check_server(options.url), default_tokens()
    there = await account_labels(store, url)
    if options.all:
        wanted = there
    else:
        wanted = [options.account if options.account is not None else await default_account(store, url)]
    if not there or not set(wanted) <= set(there):
        raise Failed("not_found", f"There is no such login at {url}; `dovetail accounts` shows those that there are.")
    for label in wanted:
        try:
            await OAuth(store=store, account=label).logout(url)
        except AuthorizationFailed as problem:
            told = f"The login is forgotten here, but the authorization server could not be told: {problem}"
            print(output.printable(told), file=sys.stderr)
    if options.format == "json":
        output.show_json({"server": url, "accounts": wanted})
    else:
        named = [f", account {label}" if label else "" for label in wanted]
        output.show_text("\n".join(f"Logged out at {url}{name}." for name in named))
    return OK
