"""`dovetail watch TARGET [URI…]`."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.exit_status import OK
from dovetail.cli.options.client_options import add_client_options, run_with_client
from dovetail.cli.options.numbers import whole_number
from dovetail.cli.options.targets import add_target_argument
from dovetail.cli.terminal.progress import ProgressDisplay

if TYPE_CHECKING:
    from dovetail.client.client import Client
    from dovetail.client.subscriptions import Change

KINDS = ("tools", "resources", "prompts")


def configure_watch(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_target_argument(parser)
    parser.add_argument("uris", nargs="*", metavar="URI", help="resources to watch; with none, the lists")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", action="store_true", help=f"watch the list of {kind}")
    parser.add_argument(
        "--count", type=whole_number("the number of changes"), metavar="N", help="exit after this many changes"
    )
    add_client_options(parser)


def run_watch(options: argparse.Namespace) -> int:
    """Print changes until Ctrl-C, which is the regular way to end and exits with 0."""
    try:
        return run_with_client(options, _watch)
    except KeyboardInterrupt:
        return OK


async def _watch(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    wanted: dict[str, bool] = {kind: getattr(options, kind) for kind in KINDS}
    if not options.uris and not any(wanted.values()):
        wanted = dict.fromkeys(KINDS, True)
    left = options.count
    display.note(f"Watching {_subjects(options.uris, wanted)}; Ctrl-C ends it.")
    async with contextlib.aclosing(client.watch(*options.uris, **wanted)) as changes:
        async for change in changes:
            _show(change, options)
            if left is not None:
                left -= 1
                if left <= 0:
                    return


def _subjects(uris: list[str], wanted: dict[str, bool]) -> str:
    """The watched resources and lists, in words."""
    kinds = [kind for kind, is_wanted in wanted.items() if is_wanted]
    words = [*uris, *([f"the list of {kinds[0]}"] if len(kinds) == 1 else [])]
    if len(kinds) > 1:
        words.append(f"the lists of {', '.join(kinds[:-1])} and {kinds[-1]}")
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else words[0]


def _show(change: Change, options: argparse.Namespace) -> None:
    uri = change.uri
    if options.format == "json":
        missed = {"missed": True} if change.missed else {}
        output.show_json({"kind": change.kind, **({} if uri is None else {"uri": uri}), **missed})
        return
    what = f"the list of {change.kind}" if uri is None else uri
    output.show_text(f"{time.strftime('%H:%M:%S')} {what} {'may have changed' if change.missed else 'changed'}")
    sys.stdout.flush()
