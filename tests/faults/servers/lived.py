"""A server with a lifespan that shows when it is entered and left: at once, slowly, or badly."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from dovetail import Server


def say(word: str) -> None:
    sys.stderr.write(f"{word}\n")
    sys.stderr.flush()


@contextlib.asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[None]:
    if "slowly" in sys.argv:
        say("entering")
        await asyncio.sleep(600)
    if "badly" in sys.argv:
        raise RuntimeError("there is no database")
    say("entered")
    try:
        yield
    finally:
        await asyncio.sleep(0)
        say("left")


if __name__ == "__main__":
    Server("lived", lifespan=lifespan).run()
