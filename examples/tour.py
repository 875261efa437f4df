"""A tour of small servers over stdio: first one of them closely, on two revisions, then some others.

`make tour` runs this.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any, Literal

from dovetail import Audio, BlobContents, Client, Image, TextContents, ToolFailed

HERE = Path(__file__).parent
REVISIONS = ("2024-11-05", "2026-07-28")
REPEATED = "io.modelcontextprotocol/protocolVersion"
WIDTH = 104
LINES = 3

_ON_TERMINAL = sys.stdout.isatty()


def example(name: str) -> list[str]:
    """The command of an example."""
    return [sys.executable, str(HERE / f"{name}.py")]


def paint(text: str, colour: int) -> str:
    """Text in a colour, where there is a terminal to show it."""
    return f"\x1b[{colour}m{text}\x1b[0m" if _ON_TERMINAL else text


def say(text: str) -> None:
    """A sentence of the guide."""
    print(f"\n{paint(text, 1)}")


def title(text: str) -> None:
    """The name of a part of the tour."""
    print(f"\n{'─' * WIDTH}\n{paint(text, 1)}")


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


async def weather(revision: str) -> None:
    """Use everything the server has, once, and see what goes over the wire."""
    title(f"weather.py on revision {revision}")
    say("The client starts the server and finds out who it is.")
    async with Client(example("weather"), revision=revision, trace=show) as c:
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


async def booking(revision: str) -> None:
    """Answer what a server asks in the middle of a call."""
    title(f"booking.py on revision {revision}: the server asks back")

    def answer(question: Any) -> dict[str, Any]:
        reply = {"pay": True} if "Book?" in question.message else {"arrival": "2026-08-01", "nights": 2}
        print(f"  the server asks: {question.message}\n  we answer: {reply}")
        return reply

    async with Client(example("booking"), revision=revision, on_elicit=answer) as c:
        print(f"  {(await c.call('book', city='Lima')).data}")


def fill(folder: str) -> None:
    """Put a file into a folder, and a link that leads out of it."""
    Path(folder, "hello.txt").write_text("Hello!")
    Path(folder, "way-out").symlink_to("/etc")


async def files() -> None:
    """Work within roots."""
    title("files.py: a server that stays inside the roots it is given")
    with tempfile.TemporaryDirectory() as folder:
        fill(folder)
        async with Client(example("files"), roots=[folder]) as c:
            print(f"  hello.txt: {(await c.call('read_file', path='hello.txt')).data}")
            refused = await c.call("read_file", path="way-out/passwd", check=False)
            print(f"  way-out/passwd: {refused.text.partition(':')[0].replace(folder, '…')}")


async def database() -> None:
    """Look at a schema, ask, and complete."""
    title("database.py: a schema to read, questions in SQL, and nothing that changes anything")
    async with Client(example("database")) as c:
        print(f"  tables that begin with b: {(await c.complete('explore', 'table', 'b')).values[:1]}")
        for contents in (await c.read("db://tables/books")).contents:
            if isinstance(contents, TextContents):
                print(f"  {contents.text}")
        rows = (await c.call("query", sql="SELECT title, year FROM books WHERE year < 1830")).data["rows"]
        print(f"  before 1830: {rows}")
        print(f"  {(await c.call('query', sql='DROP TABLE books', check=False)).text}")


async def jobs() -> None:
    """Cancel something long."""
    title("jobs.py: a job of a hundred seconds, cancelled after five frames")
    under_way = asyncio.Event()

    def progress(done: float, total: float | None, message: str | None) -> None:
        if done <= 5:
            print(f"  {message} of {total}")
        if done == 5:
            under_way.set()

    async with Client(example("jobs")) as c:
        call = asyncio.ensure_future(c.call("render", frames=10_000, progress=progress))
        await under_way.wait()
        call.cancel()
        await asyncio.wait([call])
        outcomes = ["running"]
        while outcomes == ["running"]:  # the server may be tidying up
            outcomes = (await c.call("jobs")).data
        print(f"  what became of it: {outcomes}")


async def basket() -> None:
    """Keep something between calls."""
    title("basket.py: a handle stands for what lives longer than a call")
    async with Client(example("basket")) as c:
        handle = (await c.call("open_basket")).data
        print(f"  {handle}: {(await c.call('add_item', basket=handle, item='tea', count=2)).data}")
        print(f"  {(await c.call('check_out', basket=handle)).data}")
        print(f"  again: {(await c.call('check_out', basket=handle, check=False)).text}")


async def media() -> None:
    """Get bytes."""
    title("media.py: pictures and sounds")
    async with Client(example("media")) as c:
        blocks = (await c.call("swatch", red=200)).content + (await c.call("tone")).content
        for block in blocks:
            if isinstance(block, Image | Audio):
                print(f"  {block.mime_type}, {len(block.data)} bytes")
        for contents in (await c.read("media://logo")).contents:
            if isinstance(contents, BlobContents):
                print(f"  {contents.uri}: {contents.mime_type}, {len(contents.blob)} bytes")


async def main() -> None:
    """Walk through all of it."""
    started = time.perf_counter()
    print("The same server and the same client code, on the first and on the newest revision of the protocol.")
    for revision in REVISIONS:
        await weather(revision)
    for revision in ("2025-11-25", "2026-07-28"):
        await booking(revision)
    for part in (files, database, jobs, basket, media):
        await part()
    print(f"\nDone in {time.perf_counter() - started:.1f} s. Next: README.md has a server in ten lines.")


if __name__ == "__main__":
    asyncio.run(main())
