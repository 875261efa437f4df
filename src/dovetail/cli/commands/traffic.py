"""`dovetail traffic`."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from dovetail.cli.exit_status import OK, UNREACHABLE, USAGE, CommandFailed
from dovetail.cli.options.client_options import add_format_option

if TYPE_CHECKING:
    from dovetail.cli.traffic.attach import AttachedHost
    from dovetail.cli.traffic.exchange import TrafficExchange
    from dovetail.cli.traffic.filters import TrafficFilter

_LATEST = 40
_WIDE = 120
"""Columns where there is no terminal."""


def configure_traffic(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="SERVER",
        help="only these servers; the word errors selects what failed, and any other word what contains it",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the host ends")
    parser.add_argument("-n", "--number", type=int, metavar="N", help="show one exchange in full")
    parser.add_argument("--host", type=int, metavar="PID", help="the host, if several are running")
    add_format_option(parser)
    parser.epilog = (
        "A `dovetail host` of yours must be running in another terminal. Secrets are redacted. "
        "Example: dovetail traffic --follow notes errors"
    )


def run_traffic(options: argparse.Namespace) -> int:
    """Show the traffic of a running host."""
    if not hasattr(asyncio, "open_unix_connection"):
        raise CommandFailed("usage", "`dovetail traffic` needs Unix sockets, which this system has not.", USAGE)
    return asyncio.run(_traffic(options))


async def _traffic(options: argparse.Namespace) -> int:
    from dovetail.cli.traffic.attach import running_hosts
    from dovetail.cli.traffic.filters import read_filter

    async with running_hosts() as hosts:
        host = await _choose(hosts, options.host)
        wanted = read_filter(options.words, host.greeting.servers)
        await _show(host, wanted, options)
    return OK


async def _choose(hosts: list[AttachedHost], pid: int | None) -> AttachedHost:
    if pid is not None:
        hosts = [host for host in hosts if host.greeting.pid == pid]
    if not hosts:
        which = (
            "no `dovetail host` of yours is running" if pid is None else f"no `dovetail host` has the process id {pid}"
        )
        raise CommandFailed("not_found", f"{which}; start one in another terminal", UNREACHABLE)
    if len(hosts) == 1:
        return hosts[0]
    from dovetail.cli.terminal.terminal import InputClosed, Terminal, is_interactive

    lines = [_described(host) for host in hosts]
    if not is_interactive():
        raise CommandFailed("usage", "several hosts are running; name one with --host PID:\n" + "\n".join(lines), USAGE)
    from dovetail.cli.terminal.progress import ProgressDisplay

    terminal = Terminal(ProgressDisplay(sys.stderr))
    async with terminal.question():
        for number, line in enumerate(lines, start=1):
            terminal.say(f"{number}){line}")
        while True:
            try:
                typed = await terminal.prompt(f"Which host? (1-{len(hosts)}) ")
            except InputClosed:
                raise CommandFailed("usage", "no host was chosen; name one with --host PID", USAGE) from None
            if typed.isdecimal() and 1 <= int(typed) <= len(hosts):
                return hosts[int(typed) - 1]


def _described(host: AttachedHost) -> str:
    greeting = host.greeting
    since = time.strftime("%H:%M:%S", time.localtime(greeting.since))
    return f"  {greeting.pid}  since {since} in {greeting.folder}: {', '.join(greeting.servers) or 'no servers'}"


async def _show(host: AttachedHost, wanted: TrafficFilter, options: argparse.Namespace) -> None:
    from dovetail.cli.traffic.live import LiveTraffic, TrafficFollower
    from dovetail.cli.traffic.pairing import TrafficLog

    traffic = LiveTraffic(TrafficLog(first=host.greeting.first))
    show = _json_line if options.format == "json" else _text_line()
    follower = TrafficFollower(wanted, show)
    caught_up = False
    try:
        async for line in host.lines():
            if line is not None:
                touched = traffic.add(line)
                if caught_up:
                    follower.on_exchange(line, touched)
                continue
            caught_up = True
            if options.number is not None:
                _show_one(traffic.log, options)
                return
            found = [each for each in traffic.log.all() if wanted.matches(each)]
            for exchange in found if options.format == "json" else found[-_LATEST:]:
                show(exchange)
            if not options.follow:
                if not found:
                    print("No message yet." if not options.words else "No such message.", file=sys.stderr)
                return
        print("The host has ended.", file=sys.stderr)
    finally:
        follower.close()


def _show_one(log: Any, options: argparse.Namespace) -> None:
    from dovetail.cli.chat.ui.colours import Colorizer, wants_colour
    from dovetail.cli.traffic.views import exchange_details

    exchange = log.find(options.number)
    if exchange is None:
        raise CommandFailed("not_found", f"the host keeps no exchange {options.number}")
    if options.format == "json":
        _json_line(exchange, messages=True)
        return
    colorizer = Colorizer(wants_colour(os.environ, sys.stdout.isatty()))
    for part in exchange_details(exchange):
        print(colorizer.line(part))


def _text_line() -> Any:
    from dovetail.cli.chat.ui.colours import Colorizer, wants_colour
    from dovetail.cli.traffic.views import exchange_line, exchange_tone

    colorizer = Colorizer(wants_colour(os.environ, sys.stdout.isatty()))

    def show(exchange: TrafficExchange) -> None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
        print(colorizer.line((exchange_tone(exchange), exchange_line(exchange, width))), flush=True)

    return show


def _json_line(exchange: TrafficExchange, messages: bool = False) -> None:
    import msgspec

    facts: dict[str, Any] = {
        "number": exchange.number,
        "at": exchange.at,
        "server": exchange.server,
        "direction": exchange.request.direction,
        "method": exchange.method,
        "subject": exchange.subject,
        "outcome": exchange.outcome,
        "error": exchange.error,
        "seconds": exchange.seconds,
        "bytes": exchange.bytes,
        "related": exchange.related_count,
    }
    if messages:
        lines = [exchange.request, *exchange.related, *([] if exchange.answer is None else [exchange.answer])]
        facts["messages"] = [
            {"at": line.at, "direction": line.direction, "message": line.message.decode(errors="replace")}
            for line in lines
        ]
    print(msgspec.json.encode(facts).decode(), flush=True)
