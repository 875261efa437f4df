"""A server of the first revision, over stdio: weather, and a prompt with completion. Nothing newer is known here.

It has no forms, no annotations and no structured results; a host treats it like any other.
"""

from __future__ import annotations

from dovetail import Server

WEATHER = {"Lisbon": "26 °C, sunny", "Lima": "19 °C, cloudy", "Oslo": "12 °C, rain", "London": "15 °C, drizzle"}

server = Server(
    "almanac",
    version="1.0.0",
    title="The Almanac",
    instructions="Cities are written in English.",
    revisions=["2024-11-05"],
)


@server.tool
def weather(city: str) -> str:
    """Tell the weather in a city.

    Args:
        city: Where.
    """
    return f"{city}: {WEATHER.get(city, 'nobody has looked out of the window')}"


@server.prompt
def pack(city: str, days: str = "3") -> str:
    """Ask what to take along."""
    return f"What should I pack for {days} days in {city}?"


@server.completion("pack", "city")
def cities(value: str) -> list[str]:
    """Complete the name of a city."""
    return [city for city in WEATHER if city.lower().startswith(value.lower())]


if __name__ == "__main__":
    server.run()
