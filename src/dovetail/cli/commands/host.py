"""`dovetail host`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import sys
from typing import TYPE_CHECKING

from dovetail.cli.exit_status import OK, USAGE, CommandFailed
from dovetail.cli.options.host_options import add_host_options, make_host
from dovetail.cli.terminal.terminal import is_interactive
from dovetail.types.errors import missing_extra

ENDED = 143
"""SIGTERM, as shells report it: 128 and the number of the signal."""

if TYPE_CHECKING:
    from prompt_toolkit.history import History


def configure_host(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_host_options(parser)
    parser.epilog = "In the chat, /help lists the commands. For scripts use `dovetail ask`."


def run_host(options: argparse.Namespace) -> int:
    """Chat until the user quits."""
    if not is_interactive() or not sys.stdout.isatty():  # the user must see what to approve
        raise CommandFailed("usage", "`dovetail host` needs a terminal; for scripts use `dovetail ask`.", USAGE)
    if importlib.util.find_spec("prompt_toolkit") is None:
        raise CommandFailed("usage", str(missing_extra("cli", "`dovetail host`")), USAGE)
    try:
        return asyncio.run(_host(options))
    except asyncio.CancelledError:
        return ENDED


async def _host(options: argparse.Namespace) -> int:
    from dovetail.cli.chat.app import ChatApp
    from dovetail.cli.chat.forms import input_secrets
    from dovetail.cli.chat.status_lines import log_to_transcript
    from dovetail.cli.chat.ui.prompt_toolkit_ui import PromptToolkitUI

    ui = PromptToolkitUI(_history())
    app = ChatApp(ui, options.system)
    host = make_host(
        options,
        on_approve=app.dialogs.approve,
        on_elicit=app.forms.elicit,
        on_event=app.status_lines.on_event,
        secrets=input_secrets(ui),
    )
    with log_to_transcript(ui):
        async with host:
            await app.run(host)
    return OK


def _history() -> History | None:
    """The input history, in a file that only the user can read; None if it cannot be created."""
    from prompt_toolkit.history import FileHistory

    from dovetail.userdata.folders import user_folder

    path = user_folder() / "history"
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        return FileHistory(path)
    return None
