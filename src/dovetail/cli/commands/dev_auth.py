"""`dovetail dev-auth`: an authorization server for development."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING

from dovetail.cli.exit_status import OK

if TYPE_CHECKING:
    from dovetail.testing.auth_server.dev_auth import DevAuth

PORT = 8090

_BANNER = """\
FOR DEVELOPMENT ONLY: anybody who can reach this can log in as anybody. Never use it for anything real.

{issuer} gives out tokens, good for {seconds} s each; Ctrl-C ends it. To protect a server with it:

    from dovetail import JWTVerifier, Server
    auth = JWTVerifier(issuer="{issuer}", audience="{resource}")
    server = Server("mine", auth=auth)
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--port", type=_port, default=PORT, help=f"on 127.0.0.1, {PORT} by default; 0 for a free one")
    parser.add_argument("--issuer", metavar="URL", help="what it is known by, if not http://127.0.0.1:PORT")
    parser.add_argument("--token-seconds", type=_seconds, default=300, metavar="N", help="the life of a token, 300 s")
    parser.add_argument("--user", action="append", metavar="NAME", help="who may log in; anybody without it")
    parser.add_argument("--scope", action="append", metavar="SCOPE", help="a scope that there is; any without it")
    parser.add_argument(
        "--resource", action="append", metavar="URL", help="a server to give tokens for; any without it"
    )
    parser.add_argument(
        "--client", action="append", type=_client, metavar="ID:SECRET", help="a program that gets tokens for itself"
    )


def run(options: argparse.Namespace) -> int:
    """Serve until a signal says to end."""
    from dovetail.server.run.http import require_uvicorn
    from dovetail.testing.auth_server.dev_auth import DevAuth

    require_uvicorn()
    auth = DevAuth(
        options.issuer,
        token_seconds=options.token_seconds,
        users=options.user or (),
        scopes=options.scope,
        resources=options.resource or (),
    )
    for client_id, secret in options.client or ():
        auth.add_client(client_id, secret=secret)
    auth.listen(lambda text: _say(f"{text}.\n"))
    resource = (options.resource or ["http://127.0.0.1:8000/mcp"])[0]
    auth.run(options.port, lambda: _say(_banner(auth, resource)))
    return OK


def _banner(auth: DevAuth, resource: str) -> str:
    return _BANNER.format(issuer=auth.issuer, seconds=auth.token_seconds, resource=resource)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # whoever read it may have seen enough
        sys.stdout.write(text)
        sys.stdout.flush()


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"a port is a number up to 65535, not {text!r}")
    return int(text)


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 86_400:
        raise argparse.ArgumentTypeError(f"a token lives for 1 to 86400 s, not {text!r}")
    return int(text)


def _client(text: str) -> tuple[str, str]:
    client_id, _, secret = text.partition(":")
    if not client_id or not secret:
        raise argparse.ArgumentTypeError(f"a client is ID:SECRET, not {text!r}")
    return client_id, secret
