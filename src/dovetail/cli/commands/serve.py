"""`dovetail run` (stdio) and `dovetail serve` (HTTP, Unix sockets)."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from dovetail.cli.exit_status import OK
from dovetail.cli.options.load_server import ServerSource, add_source_arguments, check_file, serve_source
from dovetail.cli.options.telemetry import add_telemetry, start_telemetry
from dovetail.cli.parser import UsageError

if TYPE_CHECKING:
    from dovetail.server.app import Server


LOG_LEVELS = ("debug", "info", "warning", "error")


def configure_serve(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_source_arguments(parser)
    parser.add_argument("--http", action="store_true", help="serve over HTTP (the default without --unix)")
    parser.add_argument("--unix", metavar="PATH", help="serve at a Unix socket; with --http, HTTP at that socket")
    add_grace(parser, "calls")
    add_store(parser)
    add_telemetry(parser)
    parser.add_argument("--reload", action="store_true", help="replace the server when a file changes; sessions go on")
    add_reload_dir(parser)
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="info", help="level of the log on stderr")
    add_http_arguments(parser)


def add_http_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of HTTP; they default to None, so that it shows whether they were given."""
    http = parser.add_argument_group("over HTTP")
    http.add_argument("--host", help="the address to listen at, 127.0.0.1 by default")
    http.add_argument("--port", type=_port, help="8000 by default; 0 for a free one")
    http.add_argument("--path", help="path of the endpoint, /mcp by default")
    http.add_argument("--workers", type=_count, metavar="N", help="processes that share the port")
    http.add_argument("--stateless", action="store_true", default=None, help="keep no sessions")
    http.add_argument(
        "--json-response", action="store_true", default=None, help="respond with JSON, never with a stream"
    )
    http.add_argument(
        "--allow-host", action="append", metavar="HOST", help="accept this Host header, besides localhost"
    )
    http.add_argument(
        "--allow-origin", action="append", metavar="ORIGIN", help="accept requests from web pages of this origin"
    )
    http.add_argument(
        "--trusted-proxy",
        action="append",
        metavar="ADDRESS",
        help="a proxy whose X-Forwarded-For names the client: an address, a network, or unix (default: any on this"
        " machine)",
    )


def add_grace(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--grace`."""
    parser.add_argument(
        "--grace",
        type=read_seconds,
        default=5.0,
        metavar="SECONDS",
        help=f"how long {what} may finish at shutdown (default 5)",
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add `--store` and `--tasks`; both default to None, so that it shows whether they were given."""
    parser.add_argument(
        "--store",
        metavar="URL",
        help="keep sessions and tasks in a SQLite file, or in Redis (redis://…), so that they survive a restart; "
        "DOVETAIL_STORE by default",
    )
    parser.add_argument(
        "--tasks", choices=("here", "workers"), help="workers leaves tasks to `dovetail worker` (default here)"
    )


def run_serve(options: argparse.Namespace) -> int:
    """Serve until a signal arrives."""
    given, kept = http_options(options), _store_options(options)
    transport: dict[str, Any] = {"transport": "http", **given, **kept}
    if options.unix is not None and options.http:
        transport["uds"] = options.unix
        if "host" in given or "port" in given:
            raise UsageError("use either a Unix socket or a port, not both")
    elif options.unix is not None:
        if given:
            raise UsageError("options of HTTP need --http with --unix")
        transport = {"transport": "unix", "path": options.unix, **kept}
    source = ServerSource(file=options.file, module=options.module)
    if options.reload or options.reload_dir:
        return _serve_and_reload(options, source.watched_file, transport)
    log_to_stderr(options.log_level)

    def serve_with(server: Server) -> None:
        if options.telemetry:
            server.use(start_telemetry(options.workers), outermost=True)
        server.run(grace=options.grace, **transport)

    serve_source(source, options.after_dashes, serve_with)
    return OK


def _serve_and_reload(options: argparse.Namespace, path: str, transport: dict[str, Any]) -> int:
    """Bind the address here, and serve on it with one process after the other."""
    import asyncio
    import contextlib
    import tempfile

    from dovetail.cli.hot_reload.http_reloader import HttpReloader, reload_is_supported
    from dovetail.server.run.http import require_uvicorn
    from dovetail.server.run.sockets import tcp_binder, unix_binder
    from dovetail.server.run.store_options import STORE_VARIABLE

    if transport["transport"] != "http":
        raise UsageError("--reload needs HTTP: add --http")
    if options.workers is not None:
        raise UsageError("--reload runs one process: leave out --workers")
    if not reload_is_supported():
        raise UsageError("--reload over HTTP needs an operating system on which processes can hand sockets over")
    check_file(path)
    require_uvicorn()
    host, port, uds = options.host or "127.0.0.1", 8000 if options.port is None else options.port, options.unix
    bind, cleanup = unix_binder(uds, 0o600) if uds is not None else (tcp_binder(host, port, allow_remote=True), None)
    with cleanup or contextlib.nullcontext(), tempfile.TemporaryDirectory(prefix="dovetail-") as folder:
        # Not in the command line of the other process, which every user of the machine can read.
        given = absolute_store(options.store or os.environ.get(STORE_VARIABLE) or None)
        os.environ[STORE_VARIABLE] = given or os.path.join(folder, "sessions.sqlite")
        command = [sys.executable, "-P", "-m", "dovetail.cli", "serve", *_words(options, path)]
        folders = options.reload_dir or [os.path.dirname(os.path.abspath(path))]

        async def main() -> None:
            await HttpReloader(command, bind(), folders, options.grace).run()

        asyncio.run(main())
    return OK


def absolute_store(store: str | None) -> str | None:
    """The URL of a store for a process, or a program, that uses another working directory."""
    if store is None:
        return None
    from dovetail.storage.urls import StoreUrl

    return StoreUrl(store).absolute()


def _words(options: argparse.Namespace, path: str) -> list[str]:
    """The command line of a process that serves what the options say."""
    words = [os.path.abspath(path) + options.file[len(path) :], "--http", "--grace", str(options.grace)]
    words += ["--log-level", options.log_level]
    for name in ("unix", "host", "port", "path"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name}", str(value)]
    words += ["--tasks", options.tasks] if options.tasks else []
    words += ["--telemetry"] if options.telemetry else []
    words += ["--stateless"] if options.stateless else []
    words += ["--json-response"] if options.json_response else []
    for host in options.allow_host or ():
        words += ["--allow-host", host]
    for origin in options.allow_origin or ():
        words += ["--allow-origin", origin]
    for proxy in options.trusted_proxy or ():
        words += ["--trusted-proxy", proxy]
    return [*words, "--", *options.after_dashes]


def http_options(options: argparse.Namespace) -> dict[str, Any]:
    """The HTTP options that were given, as keyword arguments of `Server.run`."""
    given: dict[str, Any] = {
        "host": options.host,
        "port": options.port,
        "path": options.path,
        "workers": options.workers,
        "sessions": None if options.stateless is None else False,
        "json_response": options.json_response,
        "allowed_hosts": options.allow_host,
        "allowed_origins": options.allow_origin,
        "trusted_proxies": options.trusted_proxy,
    }
    return {name: value for name, value in given.items() if value is not None}


def _store_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options about what outlives a call that were given, as keyword arguments of `Server.run`."""
    given: dict[str, Any] = {"store": absolute_store(options.store), "tasks": options.tasks}
    return {name: value for name, value in given.items() if value is not None}


def log_to_stderr(level: str) -> None:
    """Log to stderr unless the file configures logging; each line has the id of its request."""
    from dovetail.server.http.access_log import RequestIds, RequestLogFormatter

    handler = logging.StreamHandler()
    handler.setFormatter(RequestLogFormatter())
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


def read_seconds(text: str) -> float:
    """Parse a number of seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def configure_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_source_arguments(parser)
    parser.add_argument("--reload", action="store_true", help="restart the server when a file changes")
    add_reload_dir(parser)
    add_store(parser)


def run_run(options: argparse.Namespace) -> int:
    """Serve over stdin and stdout."""
    source = ServerSource(file=options.file, module=options.module)
    if options.reload or options.reload_dir:
        from dovetail.cli.hot_reload.proxy import serve_and_reload
        from dovetail.server.run.store_options import STORE_VARIABLE

        if options.tasks is not None:
            raise UsageError("--reload runs tasks in the server: leave out --tasks")
        if options.store is not None:
            os.environ[STORE_VARIABLE] = absolute_store(options.store) or ""
        return serve_and_reload(source.watched_file, source.name, options.reload_dir, options.after_dashes)
    kept = _store_options(options)

    def serve_with(server: Server) -> None:
        server.run(**kept)

    serve_source(source, options.after_dashes, serve_with if kept else None)
    return OK


def add_reload_dir(parser: argparse.ArgumentParser) -> None:
    """Add `--reload-dir`."""
    parser.add_argument(
        "--reload-dir",
        action="append",
        type=_folder,
        default=[],
        metavar="DIR",
        help="reload when a Python file in this folder changes (default: the folder of FILE)",
    )


def _folder(text: str) -> str:
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    return os.path.abspath(text)
