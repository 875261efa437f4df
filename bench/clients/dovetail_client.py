"""The benchmark's client on Dovetail."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from timing import Opened, main

from dovetail import Client


@asynccontextmanager
async def connect(target: list[str]) -> AsyncIterator[Opened]:
    async with Client(target[0] if len(target) == 1 else target) as client:

        async def echo(text: str) -> str:
            return (await client.call("echo", text=text)).text

        yield Opened(echo, client.revision)


main(connect)
