"""Options of a load test."""

from __future__ import annotations

import argparse

from dovetail.cli.options.numbers import seconds, whole_number
from dovetail.cli.parser import UsageError

MAX_LOAD_CALLS = 1_000_000
MAX_LOAD_CONCURRENCY = 256
MAX_LOAD_SECONDS = 3_600

CONCURRENCY = 8
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


def add_load_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a load test."""
    group = parser.add_argument_group("load test")
    group.add_argument(
        "--load",
        type=whole_number("the number of calls", 1, MAX_LOAD_CALLS),
        metavar="N",
        help="call the tool N times and print latencies, throughput and errors",
    )
    group.add_argument(
        "--concurrency",
        type=whole_number("the number of calls at a time", 1, MAX_LOAD_CONCURRENCY),
        metavar="N",
        help=f"calls at a time (default {CONCURRENCY})",
    )
    group.add_argument(
        "--duration", type=_duration, metavar="SECONDS", help="start no call after this time, with or without --load"
    )
    group.add_argument("--allow-remote", action="store_true", help="test a server that is not on this machine")


def _duration(text: str) -> float:
    duration = seconds(text)
    if not 0 < duration <= MAX_LOAD_SECONDS:
        raise argparse.ArgumentTypeError(f"a load test takes more than 0 and up to {MAX_LOAD_SECONDS} s, not {text!r}")
    return duration


def check_load_options(options: argparse.Namespace) -> None:
    """Refuse a load test that nobody asked for, and one of another machine without `--allow-remote`."""
    if options.load is None and options.duration is None:
        for name in ("concurrency", "allow_remote"):
            if getattr(options, name):
                raise UsageError(f"--{name.replace('_', '-')} needs --load N or --duration SECONDS")
        return
    if options.save is not None:
        raise UsageError("--save saves one result: leave out --load and --duration")
    if not is_local(options.target) and not options.allow_remote:
        raise UsageError(
            f"{options.target} is not on this machine: --allow-remote tests it all the same; do so only with a server "
            "that is yours"
        )


def is_local(target: str) -> bool:
    """True for a process, a Unix socket, and a URL whose host is this machine."""
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(target if "://" in target else "")
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme not in ("http", "https", "ws", "wss") or host in _LOCAL_HOSTS:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
