"""The terminal application with three servers of different eras, played from a script: `make demo` runs this.

The servers, the host, the questions and the record are real; only the person and the model are played, so that
nothing needs a network.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from scene import SCRIPT, scene

from dovetail import Host
from dovetail.cli import ChatApp, InputClosed, LineUI
from dovetail.host import ScriptedModel
from dovetail.policy import read_records, verify


class Type(NamedTuple):
    """What the person types where these words stand in front of the cursor."""

    at: str
    keys: str


class Tell(NamedTuple):
    """What a narrator says before the person goes on."""

    words: str


YOU = "you>"
WIDTH = 100

STORY: tuple[Type | Tell, ...] = (
    Tell("Servers start only with consent to the exact command or address. We agree to all three, for this session."),
    Type("[y]", "s"),
    Type("[y]", "s"),
    Type("[y]", "s"),
    Tell("Three servers, three eras, one list."),
    Type(YOU, "/servers"),
    Type("number", ""),
    Tell("The tool picker. We switch one tool off: no model sees it any more."),
    Type(YOU, "/tools"),
    Type("number", "3 space"),
    Type("number", ""),
    Tell("A question for the model. It wants to call a tool, which needs approval."),
    Type(YOU, "What is the weather in Lisbon?"),
    Type("[y]", "y"),
    Tell("We subscribe to a resource: its changes will be told as they happen."),
    Type(YOU, "/watch notes notes://all"),
    Tell("A booking. The server asks for a form in the middle of the call; then the model wants to write a note,"),
    Tell("and we edit the exact arguments before we agree. The resource that we watch changes."),
    Type(YOU, "Please book a room there."),
    Type("[y]", "y"),
    Type("Nights", "3"),
    Type("Room", "garden"),
    Type("Breakfast", ""),
    Type("Send?", "y"),
    Type("[y]", "e"),
    Type("|", '{"text": "Room in Lisbon, three nights, with breakfast"}'),
    Type("|", "."),
    Type("[y]", "y"),
    Tell("The result linked to a resource. We follow the link."),
    Type(YOU, "/open 1"),
    Tell("A server asks our model for words. We see the prompt before, and the answer before the server gets it."),
    Type(YOU, "Send a postcard."),
    Type("[y]", "y"),
    Type("[y]", "y"),
    Type("[y]", "y"),
    Tell("And we can say no. The model is told, and understands."),
    Type(YOU, "Now throw my notes away."),
    Type("[y]", "w"),
    Type("Why not?", "I still need them"),
    Tell("What went over the wire, for those who want to know."),
    Type(YOU, "/traffic notes tools/call postcard"),
    Type(YOU, "/quit"),
)


class Actor:
    """Types what the story says, and stops the play where the program asks for something else."""

    def __init__(self, story: tuple[Type | Tell, ...]) -> None:
        self._story = list(story)
        self._turn = asyncio.Lock()
        self._pause = 0.6 if sys.stdout.isatty() else 0.0

    @contextlib.asynccontextmanager
    async def question(self) -> AsyncIterator[None]:
        """One question at a time."""
        async with self._turn:
            yield

    async def prompt(self, prompt: str) -> str:
        """The next thing that the person types."""
        self.narrate()
        if not self._story:
            raise InputClosed
        step = self._story.pop(0)
        assert isinstance(step, Type)
        if step.at not in prompt:
            raise SystemExit(f"The play is out of step: {prompt!r} came, {step.at!r} was to come.")
        await asyncio.sleep(self._pause)
        print(f"{paint(prompt, 1)}{step.keys}", flush=True)
        return step.keys

    def narrate(self) -> None:
        """Say what the narrator says next."""
        head = "\n"
        while self._story and isinstance(self._story[0], Tell):
            step = self._story.pop(0)
            print(f"{head}{paint(f'# {step[0]}', 35)}", flush=True)
            head = ""


def paint(text: str, colour: int) -> str:
    """Text in a colour, where there is a terminal that shows it."""
    shown = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return f"\x1b[{colour}m{text}\x1b[0m" if shown else text


async def play(folder: Path) -> None:
    """Open the host as `dovetail host` does, and let the actor use it."""
    actor = Actor(STORY)
    app = ChatApp(LineUI(actor, sys.stdout))
    host = Host.from_config(
        folder / "mcp.json",
        folder=folder / "user",
        models=[ScriptedModel.from_file(SCRIPT, pause=0.03 if sys.stdout.isatty() else 0.0)],
        on_approve=app.dialogs.approve,
        on_elicit=app.forms.elicit,
        on_event=app.status_lines.on_event,
    )
    actor.narrate()
    async with host:
        await host.ready()
        await app.run(host)


def show_record(folder: Path) -> None:
    """The audit trail, and whether anybody has touched it."""
    print(f"\n{paint('# Every decision is on record: who decided, and by which rule.', 35)}")
    for record in read_records(folder / "audit.jsonl"):
        if record.by is not None:
            what = f"{record.server} {record.name}".strip()
            print(f"  {record.n:3} {record.event:<11} {what:<24} {record.by:<7} {record.rule}"[:WIDTH].rstrip())
    checked = verify(folder=folder)
    print(f"  {checked.records} records; {checked.problem or 'none was cut out, changed or moved'}.")


def main() -> None:
    """Play it, and look at the record."""
    started = time.perf_counter()
    with scene() as folder:
        asyncio.run(play(folder))
        show_record(folder / "user")
    print(f"\nDone in {time.perf_counter() - started:.1f} s. `make demo-live` is the same with you at the keyboard.")


if __name__ == "__main__":
    main()
