"""`dovetail gateway`: the servers of a configuration file behind one endpoint."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from dovetail.cli.exit_status import OK
from dovetail.cli.options.telemetry import add_telemetry, start_telemetry
from dovetail.cli.parser import UsageError

from .serve import LOG_LEVELS, absolute_store, add_grace, add_http_arguments, http_options, log_to_stderr


def configure_gateway(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", metavar="FILE", nargs="+", help="a configuration file, such as mcp.json")
    parser.add_argument("--stdio", action="store_true", help="serve one client over stdin and stdout")
    parser.add_argument("--http", action="store_true", help="serve over HTTP (the default)")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="approve the launches of the files as they are now; without it only those that you have approved with "
        "`dovetail approve` are started",
    )
    parser.add_argument(
        "--store",
        metavar="URL",
        help="keep sessions in a SQLite file, or in Redis (redis://…), for several gateways; DOVETAIL_STORE by default",
    )
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="rules in TOML that decide on every call; `policy` of the configuration file by default",
    )
    add_telemetry(parser)
    add_grace(parser, "calls")
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="info", help="level of the log on stderr")
    add_http_arguments(parser)


def run_gateway(options: argparse.Namespace) -> int:
    """Serve until a signal arrives."""
    from dovetail.gateway import Gateway

    given: dict[str, Any] = http_options(options)
    if options.store is not None:
        given["store"] = absolute_store(options.store)
    if options.stdio and (options.http or given):
        raise UsageError("--stdio serves one client without HTTP: leave out the options of HTTP")
    log_to_stderr(options.log_level)
    rules: dict[str, Any] = {} if options.policy is None else {"policy": options.policy}
    if options.telemetry:
        rules["middleware"] = [start_telemetry(options.workers)]
    gateway = Gateway.from_config(*options.file, trust=options.trust, **rules)
    if options.stdio:
        gateway.run("stdio", grace=options.grace)
        return OK
    servers = ", ".join(gateway.status["servers"]) or "no servers"
    print(f"Gateway for {servers}", file=sys.stderr)
    gateway.run("http", grace=options.grace, **given)
    return OK
