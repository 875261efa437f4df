"""One of several processes that share a login: for each line it reads it asks the server, four times at once."""

import asyncio
import sys

from dovetail import Client, DovetailError


async def main(url: str) -> None:
    loop = asyncio.get_running_loop()
    async with Client(url) as client:
        print("ready", flush=True)
        while await loop.run_in_executor(None, sys.stdin.readline):
            try:
                await asyncio.gather(*[client.tools() for _ in range(4)])
                print("served", flush=True)
            except DovetailError as problem:
                print(type(problem).__name__, flush=True)


asyncio.run(main(sys.argv[1]))
