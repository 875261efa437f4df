"""Measures a client from inside its own process; the same for every Python peer."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

AT_ONCE = 16
TEXT = "hello"


class Opened(NamedTuple):
    """A client that is open: how to make one echo call, and the revision it settled on."""

    echo: Callable[[str], Awaitable[str]]
    revision: str


Connect = Callable[[list[str]], AbstractAsyncContextManager[Opened]]
"""Opens a client on a URL, or on a command of several words."""


async def _calls(opened: Opened, seconds: float) -> int:
    until = time.perf_counter() + seconds

    async def worker() -> int:
        done = 0
        while time.perf_counter() < until:
            if (text := await opened.echo(TEXT)) != TEXT:
                sys.exit(f"wrong echo: {text}")
            done += 1
        return done

    return sum(await asyncio.gather(*(worker() for _ in range(AT_ONCE))))


async def _measure(connect: Connect, warm: float, seconds: float, opens: int, target: list[str]) -> dict[str, object]:
    async with connect(target) as opened:
        await opened.echo(TEXT)
        first = time.process_time()
        await _calls(opened, warm)
        before = time.process_time()
        done = await _calls(opened, seconds)
        call = (time.process_time() - before) / done
        revision = opened.revision
    spent = list[float]()
    for _ in range(opens):
        client = connect(target)
        before = time.process_time()
        await client.__aenter__()
        spent.append(time.process_time() - before)
        await client.__aexit__(None, None, None)
    return {"first": first, "call": call, "opens": spent, "revision": revision}


def main(connect: Connect) -> None:
    """Run `WARM SECONDS OPENS TARGET…` and write the seconds of CPU as one line of JSON."""
    warm, seconds, opens, *target = sys.argv[1:]
    print(json.dumps(asyncio.run(_measure(connect, float(warm), float(seconds), int(opens), target))))
