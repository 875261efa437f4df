"""A small weather service: tools, a resource, a resource template and a prompt.

Run it with `python examples/weather.py` and any MCP client, or watch `make demo` do so.
The figures are made up from the name of the city, so that everybody sees the same ones.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from dovetail import Context, Param, Server, ToolError

CITIES = {"lima": "PE", "oslo": "NO", "accra": "GH", "hanoi": "VN"}

server = Server(
    "weather",
    version="1.0.0",
    title="Weather",
    instructions="Ask for a city by its English name. Temperatures are in degrees Celsius.",
)


@dataclass
class Day:
    """The weather of one day."""

    day: int
    sky: Literal["clear", "clouds", "rain"]
    high: float


@dataclass
class Forecast:
    """The weather of some days."""

    city: str
    days: list[Day]


def _forecast(city: str, days: int) -> Forecast:
    if city.lower() not in CITIES:
        raise ToolError(f"There is no weather for {city!r}; there is for {', '.join(sorted(CITIES))}.")
    seed = sum(city.lower().encode())
    skies: tuple[Literal["clear", "clouds", "rain"], ...] = ("clear", "clouds", "rain")
    return Forecast(city, [Day(n, skies[(seed + n) % 3], 10.0 + (seed * n) % 20) for n in range(1, days + 1)])


@server.tool(title="Forecast", read_only=True)
def forecast(
    city: Annotated[str, Param("The English name of the city", max_length=80)],
    days: Annotated[int, Param("How many days ahead", ge=1, le=14)] = 3,
) -> Forecast:
    """Tell the weather of the next days."""
    return _forecast(city, days)


@server.tool(read_only=True)
async def warmest(cities: list[str], ctx: Context) -> str:
    """Find the city that will be warmest tomorrow.

    Args:
        cities: The cities to compare.
    """
    best, best_high = "", float("-inf")
    for done, city in enumerate(cities, start=1):
        high = _forecast(city, 1).days[0].high
        if high > best_high:
            best, best_high = city, high
        await ctx.progress(done, len(cities), f"looked at {city}")
        await asyncio.sleep(0)
    return best


@server.resource("weather://cities", title="Cities with a forecast")
def cities() -> list[str]:
    """Give the cities that there is a forecast for."""
    return sorted(CITIES)


@server.resource("weather://{city}/country", mime_type="text/plain")
def country(city: str) -> str:
    """Give the country code of a city."""
    return CITIES.get(city.lower(), "unknown")


@server.prompt(title="Pack for a trip")
def pack(city: str, days: int = 3) -> str:
    """Ask what to pack for a trip.

    Args:
        city: Where the trip goes.
        days: How long it is.
    """
    return f"I travel to {city} for {days} days. Look at the forecast and tell me what to pack, in one line."


if __name__ == "__main__":
    server.run()
