"""`dovetail run` (stdio) and `dovetail serve` (HTTP, Unix sockets)."""

from __future__ import annotations

import argparse
import logging
import os
from typing import TYPE_CHECKING, Any

from dovetail.cli.exit_status import OK
from dovetail.cli.options.load_server import serve_file, split_object
from dovetail.cli.parser import UsageError

if TYPE_CHECKING:
    from dovetail.server.app import Server


_LEVELS = ("debug", "info", "warning", "error")


def configure_serve(parser: argparse.ArgumentParser) -> None:
    """Add the arguments; those of HTTP default to None, so that it shows whether they were given."""
    parser.add_argument("file", metavar="FILE[:object]", help="a Python file, and the server in it")
    parser.add_argument("--http", action="store_true", help="serve over HTTP (the default without --unix)")
    parser.add_argument("--unix", metavar="PATH", help="serve at a Unix socket; with --http, HTTP at that socket")
    parser.add_argument(
        "--grace",
        type=_seconds,
        default=5.0,
        metavar="SECONDS",
        help="how long calls may finish at shutdown (default 5)",
    )
    parser.add_argument("--log-level", choices=_LEVELS, default="info", help="level of the log on stderr")
    http = parser.add_argument_group("over HTTP")
    http.add_argument("--host", help="the address to listen at, 127.0.0.1 by default")
    http.add_argument("--port", type=_port, help="8000 by default; 0 for a free one")
    http.add_argument("--path", help="path of the endpoint, /mcp by default")
    http.add_argument("--workers", type=_count, metavar="N", help="processes that share the port")
    http.add_argument("--stateless", action="store_true", default=None, help="keep no sessions")
    http.add_argument(
        "--json-response", action="store_true", default=None, help="respond with JSON, never with a stream"
    )
    http.add_argument("--store", metavar="FILE.sqlite", help="keep sessions there, so that they survive a restart")
    http.add_argument(
        "--allow-host", action="append", metavar="HOST", help="accept this Host header, besides localhost"
    )
    http.add_argument(
        "--allow-origin", action="append", metavar="ORIGIN", help="accept requests from web pages of this origin"
    )


def run_serve(options: argparse.Namespace) -> int:
    """Serve until a signal arrives."""
    given = _http_options(options)
    transport: dict[str, Any] = {"transport": "http", **given}
    if options.unix is not None and options.http:
        transport["uds"] = options.unix
        if "host" in given or "port" in given:
            raise UsageError("use either a Unix socket or a port, not both")
    elif options.unix is not None:
        if given:
            raise UsageError("options of HTTP need --http with --unix")
        transport = {"transport": "unix", "path": options.unix}
    _log_to_stderr(options.log_level)
    path, name = split_object(options.file)

    def serve_with(server: Server) -> None:
        server.run(grace=options.grace, **transport)

    serve_file(path, name, serve_with)
    return OK


def _http_options(options: argparse.Namespace) -> dict[str, Any]:
    """The HTTP options that were given, as keyword arguments of `Server.run`."""
    given: dict[str, Any] = {
        "host": options.host,
        "port": options.port,
        "path": options.path,
        "workers": options.workers,
        "sessions": None if options.stateless is None else False,
        "json_response": options.json_response,
        "store": None if options.store is None else os.path.abspath(options.store),
        "allowed_hosts": options.allow_host,
        "allowed_origins": options.allow_origin,
    }
    return {name: value for name, value in given.items() if value is not None}


def _log_to_stderr(level: str) -> None:
    """Log to stderr unless the file configures logging; each line has the id of its request."""
    from dovetail.server.http.access_log import LOG_FORMAT, RequestIds

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    handler.addFilter(RequestIds())
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"a port is a number up to 65535, not {text!r}")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"the number of workers is 1 or more, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def configure_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", metavar="FILE[:object]", help="a Python file, and the server in it")
    parser.add_argument("--reload", action="store_true", help="restart the server when a file changes")


def run_run(options: argparse.Namespace) -> int:
    """Serve over stdin and stdout."""
    path, name = split_object(options.file)
    if options.reload:
        from dovetail.cli.hot_reload.proxy import serve_and_reload

        return serve_and_reload(path, name)
    serve_file(path, name)
    return OK
