"""A booking that asks the user twice in the middle of the work, on every revision that can ask.

    dovetail call examples/booking.py book city=Lima

Where the protocol lets a server ask, it asks. On 2026-07-28 the call goes back with the questions and comes again
with the answers, perhaps to another process: code outside of `ctx.step` may run again there, code inside of it
does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from dovetail import Context, Param, Server

PRICES = {"garden": 90, "street": 70}

server = Server("booking", version="1.0.0")
ledger: list[str] = []


@dataclass
class Stay:
    """When, and in which room."""

    arrival: Annotated[str, Param("The day, such as 2026-08-01", pattern=r"^\d{4}-\d{2}-\d{2}$")]
    nights: Annotated[int, Param("How many nights", ge=1, le=30)] = 1
    room: Literal["garden", "street"] = "garden"


@dataclass
class Consent:
    """Yes or no."""

    pay: Annotated[bool, Param(title="Book and pay")]


def quote(room: str, nights: int) -> int:
    """What it costs. A real one would ask another service, and might hear another price a second later."""
    return PRICES[room] * nights


def pay(city: str, price: int) -> str:
    """Take the money, which must happen once."""
    ledger.append(f"{city}: {price}")
    return f"B-{len(ledger):04d}"


@server.tool(destructive=True, idempotent=False)
async def book(city: str, ctx: Context) -> str:
    """Book a room in a city.

    Args:
        city: Where to.
    """
    stay = await ctx.elicit(f"When do you come to {city}?", Stay)
    if not stay.accepted:
        return "Nothing is booked."
    price = await ctx.step("quote", quote, stay.data.room, stay.data.nights)
    consent = await ctx.elicit(f"{stay.data.nights} nights from {stay.data.arrival} cost {price} EUR. Book?", Consent)
    if not consent.accepted or not consent.data.pay:
        return "Nothing is booked."
    number = await ctx.step("pay", pay, city, price)
    return f"Booked under {number}: {city}, {stay.data.arrival}, {price} EUR."


if __name__ == "__main__":
    server.run()
