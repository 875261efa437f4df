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
from dovetail.cli.output import plain_terminal
from dovetail.cli.terminal.terminal import is_interactive
from dovetail.types.errors import missing_extra

ENDED = 143
"""SIGTERM, as shells report it: 128 and the number of the signal."""

if TYPE_CHECKING:
    from prompt_toolkit.history import History

    from dovetail.cli.chat.ui.contract import ChatUI
    from dovetail.host.events import HostEvent


def configure_host(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="servers to use instead of the configuration: Python files, URLs, commands, names of configured servers",
    )
    parser.set_defaults(takes_program=True)
    add_host_options(parser)
    kept = parser.add_argument_group("conversations")
    kept.add_argument(
        "--resume",
        nargs="?",
        const="last",
        metavar="ID",
        help="continue a saved conversation: its id, or the last one (/resume lists them)",
    )
    kept.add_argument("--no-save", action="store_true", help="do not save the conversation")
    parser.epilog = "In the chat, /help lists the commands. For scripts use `dovetail ask`."


def run_host(options: argparse.Namespace) -> int:
    """Chat until the user quits."""
    if not is_interactive() or not sys.stdout.isatty():  # the user must see what to approve
        raise CommandFailed("usage", "`dovetail host` needs a terminal; for scripts use `dovetail ask`.", USAGE)
    if importlib.util.find_spec("prompt_toolkit") is None:
        raise CommandFailed("usage", str(missing_extra("cli", "`dovetail host`")), USAGE)
    if options.resume is not None:
        from dovetail.host.chat.saved_conversations import SavedConversations

        # A wrong id is reported before anything starts.
        options.resume = SavedConversations().load(options.resume).summary.id
    try:
        return asyncio.run(_host(options))
    except asyncio.CancelledError:
        return ENDED


async def _host(options: argparse.Namespace) -> int:
    from dovetail.cli.chat.app import ChatApp
    from dovetail.cli.chat.forms import input_secrets
    from dovetail.cli.chat.status_lines import log_to_transcript
    from dovetail.cli.options.last_errors import LastErrors
    from dovetail.cli.traffic.publish import publishing

    ui = _terminal_ui()
    app = ChatApp(ui, options.system, saving=not options.no_save, resumed=options.resume)
    last_errors = LastErrors()

    def on_event(event: HostEvent) -> None:
        app.status_lines.on_event(event)
        last_errors.on_event(event)

    host = make_host(
        options,
        on_approve=app.dialogs.approve,
        on_elicit=app.forms.elicit,
        on_event=on_event,
        on_traffic=app.traffic.on_traffic,
        secrets=input_secrets(ui),
    )
    with last_errors, log_to_transcript(ui):
        async with host, publishing(app.traffic, lambda: list(host.servers)):
            await app.run(host)
    return OK


def _terminal_ui() -> ChatUI:
    """The user interface for this terminal: one with plain lines if the cursor cannot be moved."""
    if plain_terminal():
        from dovetail.cli.chat.ui.line_ui import LineUI
        from dovetail.cli.terminal.progress import ProgressDisplay
        from dovetail.cli.terminal.terminal import Terminal

        display = ProgressDisplay(sys.stdout)
        return LineUI(Terminal(display), sys.stdout, display)
    from dovetail.cli.chat.ui.prompt_toolkit_ui import PromptToolkitUI

    return PromptToolkitUI(_history())


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
