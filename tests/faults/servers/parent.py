"""A program that uses our client: it connects to the server given, says so, and waits for its own end."""

import asyncio
import os
import sys

from dovetail import Client


async def main() -> None:
    client = Client(sys.argv[2:])
    await client.open()
    print("connected", flush=True)
    if sys.argv[1] == "exit":
        os._exit(0)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
