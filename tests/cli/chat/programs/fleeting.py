"""A server that asks, and is gone when somebody takes its notes away; it also tells which secret it was given."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from dovetail import Context, Server

NOTES = Path(os.environ["DESK_NOTES"])
NOTES.write_text(os.environ.get("SECRET", ""))

server = Server("fleeting", version="1.0.0", revisions=["2025-11-25"])


@dataclass
class Form:
    word: str


@server.tool
async def book(ctx: Context) -> str:
    """Ask, and perhaps go."""

    async def go() -> None:
        while NOTES.exists():
            await asyncio.sleep(0.01)
        os._exit(1)

    going = asyncio.ensure_future(go())
    answer = await ctx.elicit("Your word?", Form)
    going.cancel()
    return answer.data.word


if __name__ == "__main__":
    server.run()
