"""Measures `Host.call` on a trusted server beside `Client.call` on the same program, in one process, taking turns."""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

from dovetail import Client, Host, LaunchSpec, Policy, Rule, ServerEntry

AT_ONCE = 16
SLICES = 8
TEXT = "hello"

Echo = Callable[[], Awaitable[str]]


async def _spend(echo: Echo, at_once: int, seconds: float) -> tuple[int, float]:
    """Calls made and CPU seconds spent in so many seconds of wall time."""
    until = time.perf_counter() + seconds
    before = time.process_time()

    async def worker() -> int:
        done = 0
        while time.perf_counter() < until:
            if (text := await echo()) != TEXT:
                sys.exit(f"wrong echo: {text}")
            done += 1
        return done

    done = sum(await asyncio.gather(*(worker() for _ in range(at_once))))
    return done, time.process_time() - before


async def _measure(warm: float, seconds: float, target: list[str]) -> dict[str, float]:
    entry = ServerEntry(key="echo", spec=LaunchSpec(kind="stdio", command=tuple(target)))
    policy = Policy([Rule("allow", kind="launch"), Rule("allow", tool="*")])
    with tempfile.TemporaryDirectory() as folder:
        async with Client(target) as client, Host([entry], folder=folder, policy=policy) as host:
            await host.trust("echo", True)

            async def client_echo() -> str:
                return (await client.call("echo", text=TEXT)).text

            async def host_echo() -> str:
                return (await host.call("echo__echo", text=TEXT)).text

            figures: dict[str, float] = {}
            for suffix, at_once in (("", AT_ONCE), (" alone", 1)):
                spent = {"client": [0.0, 0.0], "host": [0.0, 0.0]}
                echoes: dict[str, Echo] = {"client": client_echo, "host": host_echo}
                for echo in echoes.values():
                    await _spend(echo, at_once, warm / 2)
                for _ in range(SLICES):
                    for name, echo in echoes.items():
                        done, cpu = await _spend(echo, at_once, seconds / SLICES)
                        spent[name][0] += done
                        spent[name][1] += cpu
                figures |= {f"{name}{suffix}": cpu / done for name, (done, cpu) in spent.items()}
            return figures


def main() -> None:
    """Run `WARM SECONDS TARGET…` and write the seconds of CPU a call as one line of JSON."""
    warm, seconds, *target = sys.argv[1:]
    print(json.dumps(asyncio.run(_measure(float(warm), float(seconds), target))))


if __name__ == "__main__":
    main()
