"""`dovetail dev FILE`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import sys

from dovetail.cli.exit_status import OK, USAGE, CommandFailed
from dovetail.cli.options.load_server import check_file
from dovetail.cli.parser import UsageError
from dovetail.client.targets.python_files import split_object

from .serve import add_reload_dir, read_seconds


def configure_dev(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.usage = "dovetail dev FILE[:object] [options] [-- ARGUMENTS…]"
    parser.set_defaults(takes_program=True)
    parser.add_argument("file", metavar="FILE[:object]", help="a Python file, and the server in it")
    parser.add_argument("--plain", action="store_true", help="plain lines, as without a terminal; commands from stdin")
    add_reload_dir(parser)
    parser.add_argument("--revision", metavar="DATE", help="speak this protocol revision and no other")
    parser.add_argument(
        "--timeout",
        type=read_seconds,
        default=30.0,
        metavar="SECONDS",
        help="timeout of a request (default 30; 0: none)",
    )


def run_dev(options: argparse.Namespace) -> int:
    """Run the server until the user quits."""
    path, _ = split_object(options.file)
    if not path.endswith(".py"):
        raise UsageError("dev takes a Python file; `dovetail inspect` and `dovetail host` take other servers")
    check_file(path)
    plain = options.plain or not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty())
    if not plain and importlib.util.find_spec("prompt_toolkit") is None:
        from dovetail.types.errors import missing_extra

        text = f"{missing_extra('cli', '`dovetail dev` at a terminal')}; --plain does without"
        raise CommandFailed("usage", text, USAGE)
    with contextlib.suppress(asyncio.CancelledError, KeyboardInterrupt):
        asyncio.run(_dev(options, plain))
    return OK


async def _dev(options: argparse.Namespace, plain: bool) -> None:
    from dovetail.cli.chat.ui.contract import ChatUI
    from dovetail.cli.dev.app import DevApp

    ui: ChatUI
    if plain:
        from dovetail.cli.chat.ui.line_ui import LineUI
        from dovetail.cli.dev.plain_input import PlainInput

        ui = LineUI(PlainInput(), sys.stdout)
    else:
        from dovetail.cli.chat.ui.prompt_toolkit_ui import PromptToolkitUI

        ui = PromptToolkitUI()
    app = DevApp(
        ui,
        options.file,
        options.after_dashes,
        options.reload_dir,
        revision=options.revision,
        timeout=options.timeout or None,
    )
    await app.run()
