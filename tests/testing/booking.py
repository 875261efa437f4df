"""A small server that asks: what the tests of the testing module test."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from dovetail import Context, Param, Server


@dataclass
class Dates:
    day: str
    nights: int = 1


@dataclass
class Confirm:
    ok: bool


def booking(version: str = "1.0.0") -> Server:
    server = Server("booking", version=version, instructions="Book a hotel.")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def book(city: str, ctx: Context) -> str:
        """Book a hotel."""
        dates = await ctx.elicit("When do you arrive?", Dates)
        if not dates.accepted:
            return "no dates"
        sure = await ctx.elicit(f"{dates.data.nights} nights in {city}?", Confirm)
        return f"{city} on {dates.data.day}" if sure.accepted and sure.data.ok else "not booked"

    @server.tool
    async def both(ctx: Context) -> list[str]:
        """Ask two things at once."""
        answers = await asyncio.gather(ctx.elicit("One?", Dates), ctx.elicit("Two?", Dates))
        return [answer.data.day for answer in answers]

    @server.tool
    async def suggest(ctx: Context) -> str:
        """Ask the model."""
        return (await ctx.sample("Suggest a hotel", max_tokens=20)).text

    @server.tool
    async def sign_in(ctx: Context) -> str:
        """Send the user to a page."""
        return (await ctx.elicit_url("Sign in, please", "https://hotel.example/login")).action

    @server.tool
    async def where(ctx: Context) -> int:
        """Count the roots."""
        return len(await ctx.roots())

    @server.tool
    async def count(to: int, ctx: Context) -> int:
        """Count, and say so."""
        for number in range(1, to + 1):
            await ctx.progress(number, to)
        return to

    @server.tool(title="Rooms")
    def rooms(
        kind: Annotated[Literal["single", "double"], Param(description="The size")] = "single",
    ) -> list[int]:
        """The free rooms."""
        return [1] if kind == "single" else [2, 3]

    @server.resource("hotel://{city}", mime_type="text/plain")
    def hotel(city: str) -> str:
        """The hotel of a city."""
        return f"Hotel {city}"

    @server.prompt
    def pack(city: str, days: int = 1) -> str:
        """Ask what to pack."""
        return f"What to pack for {days} days in {city}?"

    return server


server = booking()
