"""A notebook at an address: a token says who asks, and everybody sees their own notes.

`python examples/remote.py serve` serves at port 8000. `python examples/remote.py URL TOKEN` looks into
the notebook of whoever the token belongs to. Without anything it does both, at a port that is free.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import subprocess
import sys
from collections import defaultdict
from typing import Annotated

from dovetail import Client, Context, Param, Server, ToolError
from dovetail.middleware import RateLimit

TOKENS = {
    hashlib.sha256(token).digest(): person for token, person in ((b"ann-example", "ann"), (b"bob-example", "bob"))
}
"""Digests, as a real server would keep them; who looks at them learns no token."""

MOST_NOTES = 100


def person_of(token: str) -> str | None:
    """Who a token belongs to."""
    seen = hashlib.sha256(token.encode()).digest()
    return next((person for digest, person in TOKENS.items() if hmac.compare_digest(digest, seen)), None)


def is_shown(principal: str | None, kind: str, name: str) -> bool:
    """Ann looks after the server; what only she may do is not there for others."""
    return name != "how_many" or principal == "ann"


server = Server("notebook", version="1.0.0", auth=person_of, visible=is_shown, middleware=[RateLimit(20, burst=100)])
notebooks: dict[str, list[str]] = defaultdict(list)


def _owner(ctx: Context) -> str:
    if ctx.principal is None:  # over stdio nobody shows a token
        raise ToolError("This notebook is for people who are known; serve it over HTTP.")
    return ctx.principal


@server.tool(idempotent=False)
async def note(text: Annotated[str, Param("What to remember", max_length=1000)], ctx: Context) -> int:
    """Write something down; tells how many notes there are now."""
    notes = notebooks[_owner(ctx)]
    if len(notes) >= MOST_NOTES:
        raise ToolError("The notebook is full.")
    notes.append(text)
    return len(notes)


@server.tool(read_only=True)
async def notes(ctx: Context) -> list[str]:
    """Read all notes of whoever asks."""
    return notebooks[_owner(ctx)]


@server.tool(read_only=True)
async def how_many() -> dict[str, int]:
    """Count the notes of everybody."""
    return {person: len(written) for person, written in notebooks.items()}


def look(url: str, token: str) -> None:
    """Use the notebook as a client."""
    with Client.blocking(url, auth=token) as client:
        print(f"{token}: {', '.join(tool.name for tool in client.tools())}")
        client.call("note", text=f"the server speaks {client.revision}")
        print(f"  {client.call('notes').data}")


def main(words: list[str]) -> None:
    """Serve, use, or both."""
    if words[:1] == ["serve"]:
        server.run("http", port=int(words[1]) if words[1:] else 8000)
    elif len(words) == 2:
        look(*words)
    else:
        command = [sys.executable, __file__, "serve", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            try:
                said = process.stderr.readline()  # with port 0 the server tells where it is
                address = re.search(r"http://\S+/mcp", said)
                if address is None:
                    raise SystemExit(f"The server did not start: {said}{process.stderr.read()}")
                for token in ("ann-example", "bob-example"):
                    look(address[0], token)
            finally:
                process.terminate()


if __name__ == "__main__":
    main(sys.argv[1:])
