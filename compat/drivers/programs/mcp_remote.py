"""mcp-remote, which gives a server behind a URL to clients over stdio; the mode is `first` or `only`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from our_client import OurClient, connected
from places import binary
from tour import run


@asynccontextmanager
async def connect(kind: str, mode: str, target: list[str]) -> AsyncIterator[OurClient]:
    async with connected([binary("mcp-remote"), target[0], "--transport", f"{kind}-{mode}", "--allow-http"]) as adapter:
        yield adapter


if __name__ == "__main__":
    run(connect)
