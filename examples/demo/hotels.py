"""A server of 2025-11-25 over Streamable HTTP with a session: it asks for a form in the middle of a call.

dovetail serve examples/demo/hotels.py --port 8001
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from dovetail import Context, Param, ResourceLink, Server, Text

server = Server("hotels", version="2.1.0", title="Hotels", revisions=["2025-11-25"])
booked: list[str] = []


@dataclass
class Stay:
    """When, and in which room."""

    nights: Annotated[int, Param("How many nights", title="Nights", ge=1, le=30)] = 2
    room: Annotated[Literal["garden", "street"], Param(title="Room")] = "garden"
    breakfast: Annotated[bool, Param(title="Breakfast")] = True


@server.tool(destructive=False)
async def book(city: str, ctx: Context) -> list[Text | ResourceLink]:
    """Book a room in a city; the guest is asked for the rest.

    Args:
        city: Where to.
    """
    for step in range(1, 5):
        await ctx.progress(step, 4, f"looking for rooms in {city}")
        await asyncio.sleep(0.1)
    stay = await ctx.elicit(f"Which room in {city}?", Stay)
    if not stay.accepted:
        return [Text("Nothing is booked.")]
    number = f"H-{len(booked) + 1:03d}"
    booked.append(f"{number}: {city}, {stay.data.nights} nights, {stay.data.room} room")
    server.notify_resource_updated("hotels://bookings")
    return [
        Text(f"Booked as {booked[-1]}."),
        ResourceLink("hotels://bookings", "bookings", title="All bookings", mime_type="text/plain"),
    ]


@server.tool(read_only=True)
async def search(city: str, ctx: Context) -> str:
    """Search every hotel of a city, which takes a minute.

    Args:
        city: Where.
    """
    for number in range(1, 601):
        await ctx.progress(number, 600, f"hotel {number} of {city}")
        await asyncio.sleep(0.1)
    return f"There are 600 hotels in {city}."


@server.resource("hotels://bookings", title="Bookings", mime_type="text/plain")
def bookings() -> str:
    """Everything that was booked."""
    return "\n".join(booked) or "Nothing is booked."


if __name__ == "__main__":
    server.run("http", port=8001)
