"""The terminal application with three servers of different revisions, typed by a script: `make demo` runs this.

The servers, the host, the approvals and the audit log are real. Only the user and the model follow a script, so that
nothing needs a network.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from demo_servers import MODEL_SCRIPT, demo_servers

from dovetail import Host
from dovetail.cli import ChatApp, InputClosed, LineUI
from dovetail.host import ScriptedModel
from dovetail.policy import AuditRecord, read_records, verify


class Type(NamedTuple):
    """A line that the user types when the prompt contains `at`."""

    at: str
    line: str


class Explain(NamedTuple):
    """A comment that is printed before the next line."""

    text: str


CHAT = "you>"
APPROVAL = "[n] no"

SCRIPT: tuple[Type | Explain, ...] = (
    Explain("A server starts only after you have approved its exact command or URL. We approve all three."),
    Type(APPROVAL, "s"),
    Type(APPROVAL, "s"),
    Type(APPROVAL, "s"),
    Explain("Three servers, three revisions of the protocol, one list."),
    Type(CHAT, "/servers"),
    Type("number", ""),
    Explain("We switch one tool off: the model does not see it any more."),
    Type(CHAT, "/tools"),
    Type("number", "3 space"),
    Type("number", ""),
    Explain("A question for the model. It wants to call a tool, which needs approval."),
    Type(CHAT, "What is the weather in Lisbon?"),
    Type(APPROVAL, "y"),
    Explain("We subscribe to a resource, to see its changes as they happen."),
    Type(CHAT, "/watch notes notes://all"),
    Explain(
        "A booking: the server asks for a form in the middle of the call. Then the model wants to write a note, and we "
        "edit the arguments before we approve them. The resource that we watch changes."
    ),
    Type(CHAT, "Please book a room there."),
    Type(APPROVAL, "y"),
    Type("Nights", "3"),
    Type("Room", "garden"),
    Type("Breakfast", ""),
    Type("[y] yes", "y"),
    Type(APPROVAL, "e"),
    Type("|", '{"text": "Room in Lisbon, three nights, with breakfast"}'),
    Type("|", "."),
    Type(APPROVAL, "y"),
    Explain("The result links to a resource. We open the link."),
    Type(CHAT, "/open 1"),
    Explain(
        "A server asks our model for a text. We approve the request, and then the answer, before the server gets it."
    ),
    Type(CHAT, "Send a postcard."),
    Type(APPROVAL, "y"),
    Type(APPROVAL, "y"),
    Type(APPROVAL, "y"),
    Explain("We refuse a call, and the model is told the reason."),
    Type(CHAT, "Now throw my notes away."),
    Type(APPROVAL, "w"),
    Type("Why not?", "I still need them"),
    Type(CHAT, "/quit"),
)

DECISIONS = {
    "launch": "start {server}",
    "call": "call {name} of {server}",
    "refusal": "call {name} of {server}",
    "elicitation": "send a form to {server}",
    "sampling": "let {server} use the model {name}",
}
"""The events of the audit log that the demo shows, each with its line."""


class ScriptedUser:
    """Types the lines of a script, and stops the demo if the program asks for something else."""

    def __init__(self, script: tuple[Type | Explain, ...]) -> None:
        self._script = list(script)
        self._question = asyncio.Lock()
        self._pause = 0.6 if sys.stdout.isatty() else 0.0

    @contextlib.asynccontextmanager
    async def question(self) -> AsyncIterator[None]:
        """Take one question at a time."""
        async with self._question:
            yield

    async def prompt(self, prompt: str) -> str:
        """The next line that the user types."""
        self.explain()
        if not self._script:
            raise InputClosed
        step = self._script.pop(0)
        assert isinstance(step, Type)
        if step.at not in prompt:
            raise SystemExit(f"The demo asked {prompt!r}, and its script expected {step.at!r}.")
        await asyncio.sleep(self._pause)
        print(f"{colored(prompt, 1)}{step.line}", flush=True)
        return step.line

    def explain(self) -> None:
        """Print the comments that come before the next line."""
        while self._script and isinstance(self._script[0], Explain):
            print_comment(self._script.pop(0)[0])


def print_comment(text: str) -> None:
    """Print a comment, wrapped at words."""
    width = min(shutil.get_terminal_size().columns, 80)
    print()
    for line in textwrap.wrap(text, width - 2):
        print(colored(f"# {line}", 35), flush=True)


def colored(text: str, color: int) -> str:
    """Text in a color, on a terminal that shows colors."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[{color}m{text}\x1b[0m"


async def run(folder: Path) -> None:
    """Open the host as `dovetail host` does, and let the scripted user use it."""
    user = ScriptedUser(SCRIPT)
    app = ChatApp(LineUI(user, sys.stdout))
    host = Host.from_config(
        folder / "mcp.json",
        folder=folder / "user",
        models=[ScriptedModel.from_file(MODEL_SCRIPT, pause=0.03 if sys.stdout.isatty() else 0.0)],
        on_approve=app.dialogs.approve,
        on_elicit=app.forms.elicit,
        on_event=app.status_lines.on_event,
    )
    user.explain()
    async with host:
        await host.ready()
        await app.run(host)


def show_decisions(folder: Path) -> None:
    """Print the decisions of the audit log, and the result of its verification."""
    print_comment("Every decision is in the audit log, and a change of the log is noticed.")
    for record in read_records(folder / "audit.jsonl"):
        if record.event in DECISIONS and record.by is not None:
            print(f"  {decision(record)}")
    checked = verify(folder=folder)
    print(f"  {checked.records} records: {checked.problem or 'complete and unchanged'}.")


def decision(record: AuditRecord) -> str:
    """One decision as a line."""
    by = "you" if record.by == "person" else "policy"
    verb = "refused" if record.event == "refusal" else "approved"
    line = DECISIONS[record.event].format(server=record.server, name=record.name)
    return f"{by + ' ' + verb:<16} {line}"


def main() -> None:
    """Run the demo, and show its audit log."""
    started = time.perf_counter()
    with demo_servers() as folder:
        asyncio.run(run(folder))
        show_decisions(folder / "user")
    print(f"\nDone in {time.perf_counter() - started:.1f} s. `make demo-live` is the same with you at the keyboard.")


if __name__ == "__main__":
    main()
