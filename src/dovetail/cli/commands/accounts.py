"""`dovetail accounts [TARGET]`."""

from __future__ import annotations

import argparse
import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.exit_status import OK
from dovetail.cli.options.client_options import add_output, check_server

if TYPE_CHECKING:
    from dovetail.client.auth.accounts import StoredLogin

_COLUMNS = ("server", "account", "user", "issuer", "token", "scopes")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("url", nargs="?", metavar="TARGET", help="the URL of a server (default: all)")
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Show the logins; never a token."""
    from dovetail.client.auth.accounts import list_logins
    from dovetail.client.auth.token_store import default_tokens

    url = None if options.url is None else check_server(options.url)
    found = asyncio.run(list_logins(default_tokens(), url))
    if options.format == "json":
        output.show_json(found)
    elif found:
        output.show_table(None, _COLUMNS, [_row(login) for login in found])
    else:
        output.show_text("There are no logins." if url is None else f"There is no login at {url}.")
    return OK


def _row(login: StoredLogin) -> list[str]:
    name = login.account + (" (default)" if login.default else "")
    return [login.server, name.strip(), login.user or "", login.issuer, _token(login), " ".join(login.scopes)]


def _token(login: StoredLogin) -> str:
    """How long the token is good, and whether another one follows without the user."""
    if login.expires_at is None:
        told = "until revoked"
    else:
        when = datetime.fromtimestamp(login.expires_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        told = f"{'expired' if login.expires_at <= time.time() else 'until'} {when}"
    return f"{told}, renewed by itself" if login.renewable else told
