"""A server of 2026-07-28 over HTTP: every request stands alone, and it asks a model for words.

dovetail serve examples/demo/notes.py --port 8002
"""

from __future__ import annotations

from dovetail import Context, NotFound, Server

server = Server("notes", version="3.0.0", title="Notes", revisions=["2026-07-28"])
notes: list[str] = []


@server.tool
def write(text: str) -> str:
    """Write a note.

    Args:
        text: What to write down.
    """
    notes.append(text)
    server.notify_resource_updated("notes://all")
    return f"Note {len(notes)} is written."


@server.tool(read_only=True)
async def postcard(city: str, ctx: Context) -> str:
    """Have a model write a postcard from a city.

    Args:
        city: Where it is sent from.
    """
    reply = await ctx.sample(f"Write one line for a postcard from {city}.", max_tokens=60)
    return f"The postcard says: {reply.text}"


@server.tool(destructive=True)
def clear() -> str:
    """Throw all notes away."""
    count = len(notes)
    notes.clear()
    server.notify_resource_updated("notes://all")
    return f"{count} notes are gone."


@server.resource("notes://all", title="All notes", mime_type="text/plain")
def read_notes() -> str:
    """Every note."""
    return "\n".join(notes) or "There are no notes."


@server.resource("notes://number/{number}", title="One note", mime_type="text/plain")
def read_note(number: int) -> str:
    """One note."""
    if not 1 <= number <= len(notes):
        raise NotFound(f"There is no note {number}; there are {len(notes)}.")
    return notes[number - 1]


if __name__ == "__main__":
    server.run("http", port=8002)
