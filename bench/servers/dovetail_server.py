"""The benchmark's server on Dovetail, `[http [OTHERS]]`: three tools that are measured, and 102 or OTHERS more."""

import sys
from collections.abc import Awaitable, Callable
from typing import Literal

from dovetail import Context, Server

server = Server("bench", version="1.0.0")


@server.tool
async def echo(text: str) -> str:
    """Return the text as it came."""
    return text


@server.tool
def echo_sync(text: str) -> str:
    """Return the text as it came, from a plain function."""
    return text


@server.tool
async def count(steps: int, ctx: Context) -> int:
    """Report progress a number of times."""
    for step in range(1, steps + 1):
        await ctx.progress(step, steps)
    return steps


def forecast() -> Callable[..., Awaitable[str]]:
    async def tool(city: str, days: int = 3, units: Literal["metric", "imperial"] = "metric") -> str:
        """Look up the weather of a city.

        Args:
            city: Name of the city, or its code.
            days: How many days to look ahead.
            units: Units of the answer.
        """
        return f"{city} {days} {units}"

    return tool


for number in range(int(sys.argv[2]) if len(sys.argv) > 2 else 102):
    server.tool(forecast(), name=f"forecast_{number}")

if sys.argv[1:2] == ["http"]:
    from serving import free_port, profiled, serve

    if profiled():
        serve(server.asgi())
    else:
        # As users run it, which is uvicorn with uvloop and httptools too.
        print(port := free_port(), flush=True)
        server.run("http", port=port)
else:
    server.run()
