"""`dovetail worker`: run tasks apart from the servers that take requests."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dovetail.cli.exit_status import OK
from dovetail.cli.options.load_server import ServerSource, add_source_arguments, serve_source

from .serve import LOG_LEVELS, absolute_store, add_grace, log_to_stderr

if TYPE_CHECKING:
    from dovetail.server.app import Server


def configure_worker(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_source_arguments(parser)
    parser.add_argument(
        "--store",
        metavar="URL",
        help="the store that the servers have: a SQLite file, or Redis (redis://…); DOVETAIL_STORE by default",
    )
    add_grace(parser, "tasks that cannot be resumed")
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="info", help="level of the log on stderr")


def run_worker(options: argparse.Namespace) -> int:
    """Run tasks until a signal arrives."""
    log_to_stderr(options.log_level)
    given: dict[str, Any] = {} if options.store is None else {"store": absolute_store(options.store)}

    def work_with(server: Server) -> None:
        server.run_worker(grace=options.grace, **given)

    serve_source(ServerSource(file=options.file, module=options.module), options.after_dashes, work_with)
    return OK
