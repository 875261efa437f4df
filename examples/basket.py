"""A basket that lives longer than a call, without a session: an id stands for it.

A tool gives the id out, and the model passes it to the others as an argument. An id cannot be guessed and says nothing,
and it belongs to the principal that created it. How long a basket is kept is in the description of `open_basket`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from dovetail import Context, Param, Server, ToolError

MINUTES = 30
PRICES = {"tea": 250, "cup": 900, "honey": 620}


@dataclass
class Basket:
    """What one customer wants to buy."""

    items: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class Total:
    """What is in a basket and what it costs."""

    items: dict[str, int]
    cents: int


server = Server("basket", version="1.0.0", instructions="Begin with open_basket and pass its id to the others.")
baskets = server.handles(Basket, ttl=MINUTES * 60, created_by="open_basket")

BasketId = Annotated[str, Param("The id that open_basket returned", max_length=64)]


def _total(basket: Basket) -> Total:
    return Total(basket.items, sum(PRICES[item] * count for item, count in basket.items.items()))


@server.tool
async def open_basket(ctx: Context) -> str:
    """Open a basket, and return its id."""
    return await baskets.create(ctx, Basket())


@server.tool(idempotent=False)
async def add_item(
    basket: BasketId,
    item: Annotated[str, Param(f"One of {', '.join(PRICES)}")],
    ctx: Context,
    count: Annotated[int, Param("How many", ge=1, le=99)] = 1,
) -> Total:
    """Put something into a basket."""
    if item not in PRICES:
        raise ToolError(f"There is no {item!r}; there is {', '.join(PRICES)}.")
    async with baskets.open(ctx, basket) as found:
        found.items[item] = found.items.get(item, 0) + count
    return _total(found)


@server.tool(read_only=True)
async def show_basket(basket: BasketId, ctx: Context) -> Total:
    """Tell what is in a basket."""
    return _total(await baskets.get(ctx, basket))


@server.tool(destructive=True)
async def check_out(basket: BasketId, ctx: Context) -> str:
    """Buy what is in a basket, which is gone afterwards."""
    total = _total(await baskets.get(ctx, basket))
    await baskets.delete(ctx, basket)
    return f"Bought for {total.cents / 100:.2f} EUR."


if __name__ == "__main__":
    server.run()
