"""The server of the pictures in the documentation: forecasts, and bookings with a form."""

from dataclasses import dataclass
from typing import Annotated, Literal

from dovetail import Context, Param, Server

server = Server("travel", title="Travel desk")

FORECASTS = [
    {"day": "Monday", "sky": "clear", "high": 24, "wind": "light"},
    {"day": "Tuesday", "sky": "some clouds", "high": 21, "wind": "fresh"},
    {"day": "Wednesday", "sky": "rain in the evening", "high": 19, "wind": "fresh"},
]


@dataclass
class Booking:
    """The questions of the form."""

    guest: Annotated[str, Param(title="Your name", min_length=2)]
    nights: Annotated[int, Param(title="Nights", description="How long you stay", ge=1, le=30)] = 2
    room: Annotated[Literal["garden", "street", "sea"], Param(title="Room")] = "garden"
    breakfast: Annotated[bool, Param(title="Breakfast")] = True


@server.tool
def forecast(city: str, days: int = 3) -> list[dict[str, str | int]]:
    """The weather in a city, day by day."""
    return FORECASTS[:days]


@server.tool
async def book_room(city: str, ctx: Context) -> str:
    """Book a room in a hotel; asks for the details."""
    answer = await ctx.elicit(f"A room in {city}: for whom, and for how long?", Booking)
    return f"Booked in {city}." if answer.accepted else "Nothing was booked."


@server.tool
def cancel_booking(number: int) -> str:
    """Cancel a booking by its number."""
    return f"Booking {number} is cancelled."


@server.tool
def trains(start: str, end: str) -> list[str]:
    """Departures of trains between two cities."""
    return []


if __name__ == "__main__":
    server.run()
