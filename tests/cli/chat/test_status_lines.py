"""What servers do by themselves is told, and cannot flood or fake the terminal."""

import io
from contextlib import nullcontext
from typing import Any

from dovetail.cli.chat.status_lines import StatusLines
from dovetail.cli.chat.ui.line_ui import LineUI
from dovetail.host.events import HostEvent, ResourceChange, ServerStatus


class Nobody:
    """Is never asked."""

    def question(self) -> Any:
        return nullcontext()

    async def prompt(self, prompt: str) -> str:
        raise AssertionError(prompt)


def told(*events: HostEvent) -> str:
    page = io.StringIO()
    happenings = StatusLines(LineUI(Nobody(), page))
    for event in events:
        happenings.on_event(event)
    return page.getvalue()


def changed(uri: str) -> HostEvent:
    return HostEvent(kind="resource", server="desk", detail=ResourceChange(uri=uri))


def status(**fields: Any) -> HostEvent:
    return HostEvent(kind="status", server="desk", detail=ServerStatus(key="desk", **fields))


def test_a_change_of_state_is_told_once() -> None:
    ready = status(state="ready", tools=2, revision="r")
    assert told(status(state="starting"), ready, ready) == "+ desk is ready: 2 tools, revision r\n"
    assert told(status(state="failed", error="gone\nfor good\x1b[2J")) == (
        "! desk is not running: gone\n  | for good\\u001b[2J\n"
    )


def test_the_error_of_a_server_that_is_restarted_again_and_again_is_told_once() -> None:
    attempt = [status(state="starting"), status(state="waiting", error="exited with code 2:\nno KEY")]
    failed = status(state="failed", error="exited with code 2:\nno KEY; it was given up after 5 failures in a row")
    assert told(*attempt * 4, status(state="starting"), failed) == (
        "! desk is not running and will be restarted: exited with code 2:\n"
        "  | no KEY\n"
        "! desk is not running: it was given up after 5 failures in a row\n"
    )


def test_a_flood_is_one_line() -> None:
    assert told(*[changed("a://b")] * 1000, changed("a://c")) == (
        "~ a://b of desk has changed\n~ a://c of desk has changed\n"
    )


def test_a_name_begins_no_line_of_its_own() -> None:
    assert told(changed("a://b\nyou> /quit\x1b[2J")) == "~ a://b\\u000ayou> /quit\\u001b[2J of desk has changed\n"
