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
FOR DEVELOPMENT ONLY: everyone who can reach this server can log in as any user. Never use it in production.

{issuer} issues tokens with a lifetime of {seconds} s; Ctrl-C stops it. To protect a server with it:

    from dovetail import JWTVerifier, Server
    auth = JWTVerifier(issuer="{issuer}", audience="{resource}")
    server = Server("mine", auth=auth)
"""


def configure_dev_auth(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--port", type=_port, default=PORT, help=f"on 127.0.0.1, {PORT} by default; 0 for a free one")
    parser.add_argument("--issuer", metavar="URL", help="the issuer, if not http://127.0.0.1:PORT")
    parser.add_argument(
        "--token-seconds", type=_seconds, default=300, metavar="N", help="lifetime of a token (default 300)"
    )
    parser.add_argument("--user", action="append", metavar="NAME", help="a user who may log in (default: any name)")
    parser.add_argument("--scope", action="append", metavar="SCOPE", help="a supported scope (default: any)")
    parser.add_argument(
        "--resource", action="append", metavar="URL", help="a server to issue tokens for (default: any)"
    )
    parser.add_argument(
        "--client", action="append", type=_client, metavar="ID:SECRET", help="a client for the client credentials grant"
    )


def run_dev_auth(options: argparse.Namespace) -> int:
    """Serve until a signal arrives."""
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
    auth.log_events(lambda text: _say(f"{text}.\n"))
    resource = (options.resource or ["http://127.0.0.1:8000/mcp"])[0]
    auth.run(options.port, lambda: _say(_banner(auth, resource)))
    return OK


def _banner(auth: DevAuth, resource: str) -> str:
    return _BANNER.format(issuer=auth.issuer, seconds=auth.token_seconds, resource=resource)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the reader may have closed the pipe
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
