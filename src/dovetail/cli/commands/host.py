"""`dovetail host`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import sys
from typing import TYPE_CHECKING

from dovetail.cli.exit_status import OK, USAGE, Failed
from dovetail.cli.options.host_options import add_host_options, make_host
from dovetail.cli.terminal.terminal import someone_there
from dovetail.types.errors import missing_extra

ENDED = 143
"""SIGTERM, as shells report it: 128 and the number of the signal."""

if TYPE_CHECKING:
    from prompt_toolkit.history import History


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_host_options(parser)
    parser.epilog = "Within, /help shows what can be typed. For scripts there is `dovetail ask`."


def run(options: argparse.Namespace) -> int:
    """Talk, until the person leaves."""
    if not someone_there() or not sys.stdout.isatty():  # a question that goes to a file is answered unseen
        raise Failed("usage", "`dovetail host` needs a terminal; for scripts there is `dovetail ask`.", USAGE)
    if importlib.util.find_spec("prompt_toolkit") is None:
        raise Failed("usage", str(missing_extra("cli", "`dovetail host`")), USAGE)
    try:
        return asyncio.run(_host(options))
    except asyncio.CancelledError:
        return ENDED


async def _host(options: argparse.Namespace) -> int:
    from dovetail.cli.chat.app import Application
    from dovetail.cli.chat.log_lines import shown
    from dovetail.cli.chat.secrets import input_secrets
    from dovetail.cli.chat.ui.prompt_toolkit_ui import Keyboard

    surface = Keyboard(_history())
    app = Application(surface, options.system)
    host = make_host(
        options,
        on_approve=app.dialogs.approve,
        on_elicit=app.forms.elicit,
        on_event=app.happenings.tell,
        secrets=input_secrets(surface),
    )
    with shown(surface):
        async with host:
            await app.run(host)
    return OK


def _history() -> History | None:
    """What was said at earlier times, in a file that only the user can read; none where that cannot be."""
    from prompt_toolkit.history import FileHistory

    from dovetail.userdata.folders import user_folder

    path = user_folder() / "history"
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        return FileHistory(path)
    return None
