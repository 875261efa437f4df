"""Measures calls that run as tasks beside plain calls of the same tool, in one process and taking turns."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

from dovetail import Client, Server

AT_ONCE = 16
SLICES = 8
TEXT = "hello"

Echo = Callable[[], Awaitable[str]]

server = Server("tasks")


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool(task="required", name="task")
async def echo_as_task(text: str) -> str:
    """Return the text, as a task."""
    return text


async def _spend(call: Echo, seconds: float) -> tuple[int, float]:
    """Calls made and CPU seconds spent in so many seconds of wall time."""
    until = time.perf_counter() + seconds
    before = time.process_time()

    async def worker() -> int:
        done = 0
        while time.perf_counter() < until:
            if (text := await call()) != TEXT:
                sys.exit(f"wrong echo: {text}")
            done += 1
        return done

    done = sum(await asyncio.gather(*(worker() for _ in range(AT_ONCE))))
    return done, time.process_time() - before


async def _measure(warm: float, seconds: float) -> dict[str, float]:
    async with Client(server, revision="2026-07-28") as client:

        async def plain() -> str:
            return (await client.call("echo", text=TEXT)).text

        async def task() -> str:
            return (await client.call("task", text=TEXT)).text

        calls: dict[str, Echo] = {"plain": plain, "task": task}
        spent = {name: [0.0, 0.0] for name in calls}
        for call in calls.values():
            await _spend(call, warm / 2)
        for _ in range(SLICES):
            for name, call in calls.items():
                done, cpu = await _spend(call, seconds / SLICES)
                spent[name][0] += done
                spent[name][1] += cpu
        return {name: cpu / done for name, (done, cpu) in spent.items()}


def main() -> None:
    """Run `WARM SECONDS` and write the seconds of CPU a call as one line of JSON."""
    warm, seconds = sys.argv[1:]
    print(json.dumps(asyncio.run(_measure(float(warm), float(seconds)))))


if __name__ == "__main__":
    main()
