"""A script that goes on after its server has ended."""

import contextlib
from collections.abc import AsyncIterator

from dovetail import Server


@contextlib.asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[None]:
    print("meanwhile")
    yield


if __name__ == "__main__":
    Server("short", lifespan=lifespan).run()
    print("afterwards")
