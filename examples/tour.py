"""A tour of one server over stdio, on the oldest and on the newest revision: what is said and answered.

`make demo` runs this.
"""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
import time
from pathlib import Path
from typing import Literal

from dovetail import Client, ToolFailed

SERVER = [sys.executable, str(Path(__file__).with_name("weather.py"))]
REVISIONS = ("2024-11-05", "2026-07-28")
REPEATED = "io.modelcontextprotocol/protocolVersion"
WIDTH = 104
LINES = 3

_ON_TERMINAL = sys.stdout.isatty()


def paint(text: str, colour: int) -> str:
    """Text in a colour, where there is a terminal to show it."""
    return f"\x1b[{colour}m{text}\x1b[0m" if _ON_TERMINAL else text


def say(text: str) -> None:
    """A sentence of the guide."""
    print(f"\n{paint(text, 1)}")


def show(direction: Literal["sent", "received"], line: bytes) -> None:
    """One message as it went over the wire, without what every message repeats, cut to a few lines."""
    message = json.loads(line)
    message.pop("jsonrpc")
    envelope = message.get("params", {}).get("_meta", {})
    if REPEATED in envelope:
        message["params"]["_meta"] = {REPEATED: envelope[REPEATED], "…": f"{len(envelope) - 1} more"}
    lines = textwrap.wrap(json.dumps(message, ensure_ascii=False), WIDTH, max_lines=LINES, placeholder=" …")
    arrow, colour = ("→", 36) if direction == "sent" else ("←", 33)
    for number, text in enumerate(lines):
        print(f"  {paint(arrow if number == 0 else ' ', colour)} {paint(text, 2)}")


async def tour(revision: str) -> None:
    """Use everything the server has, once."""
    print(f"\n{'─' * WIDTH}\n{paint(f'Revision {revision}', 1)}")
    say("The client starts the server and finds out who it is.")
    async with Client(SERVER, revision=revision, trace=show) as c:
        assert c.server is not None
        print(f"  It is {c.server.name} {c.server.version}, speaking {c.revision}.")

        say("Which tools are there?")
        for tool in await c.tools():
            print(f"  • {tool.name}: {tool.description}")

        say("Call one. The result is typed data, whatever the revision can carry.")
        result = await c.call("forecast", city="Lima", days=2)
        print(f"  data: {result.data}")

        say("A call that takes its time reports progress.")
        result = await c.call(
            "warmest",
            cities=["Oslo", "Accra", "Hanoi"],
            progress=lambda done, total, _: print(f"  {int(done)} of {total} cities"),
        )
        print(f"  warmest: {result.data}")

        say("A call that goes wrong says what to do.")
        try:
            await c.call("forecast", city="Atlantis")
        except ToolFailed as problem:
            print(f"  {problem}")

        say("Resources are read by URI, prompts are filled in.")
        contents = (await c.read("weather://lima/country")).contents[0]
        print(f"  Lima is in {getattr(contents, 'text', '?')}.")
        message = (await c.prompt("pack", city="Lima")).messages[0]
        print(f"  {message.role}: {getattr(message.content, 'text', '?')}")
    say("The client closed the server's input, and the server ended.")


async def main() -> None:
    """Run the tour on both revisions."""
    started = time.perf_counter()
    print(
        "The same server and the same client code, on the first and on the newest revision of the protocol."
    )
    for revision in REVISIONS:
        await tour(revision)
    print(f"\nDone in {time.perf_counter() - started:.1f} s. Next: README.md has a server in ten lines.")


if __name__ == "__main__":
    asyncio.run(main())
