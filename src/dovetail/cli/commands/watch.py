"""`dovetail watch TARGET [URI…]`."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.exit_status import OK
from dovetail.cli.options.client_options import add_options, add_target, with_client
from dovetail.cli.terminal.progress import Screen

if TYPE_CHECKING:
    from dovetail.client.client import Client
    from dovetail.client.subscriptions import Change

KINDS = ("tools", "resources", "prompts")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_target(parser)
    parser.add_argument("uris", nargs="*", metavar="URI", help="resources to watch; with none, the lists")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", action="store_true", help=f"watch the list of {kind}")
    parser.add_argument("--count", type=int, metavar="N", help="end after that many changes")
    add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Watch; Ctrl-C is how one ends it, so that is a good end."""
    try:
        return with_client(options, _watch)
    except KeyboardInterrupt:
        return OK


async def _watch(client: Client, options: argparse.Namespace, screen: Screen) -> None:
    wanted: dict[str, bool] = {kind: getattr(options, kind) for kind in KINDS}
    if not options.uris and not any(wanted.values()):
        wanted = dict.fromkeys(KINDS, True)
    left = options.count
    async with contextlib.aclosing(client.watch(*options.uris, **wanted)) as changes:
        async for change in changes:
            _show(change, options)
            if left is not None:
                left -= 1
                if left <= 0:
                    return


def _show(change: Change, options: argparse.Namespace) -> None:
    uri = change.uri
    if options.format == "json":
        output.show_json({"kind": change.kind} if uri is None else {"kind": change.kind, "uri": uri})
        return
    what = f"the list of {change.kind}" if uri is None else uri
    output.show_text(f"{time.strftime('%H:%M:%S')} {what} changed")
    sys.stdout.flush()
