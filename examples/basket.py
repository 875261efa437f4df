"""A basket that lives longer than a call, without a session: a handle stands for it.

A tool gives the handle out, and the model passes it to the others as an argument. A handle cannot be guessed and says
nothing. Each call looks up whether it is still good and whose it is; a handle of somebody else is one that does not
exist. How long it lives stands where the model reads it, in the description.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from dovetail import Context, Param, Server, ToolError

MINUTES = 30
MOST_BASKETS = 10_000
PRICES = {"tea": 250, "cup": 900, "honey": 620}


@dataclass
class Basket:
    """What one customer wants to buy."""

    owner: str | None
    good_until: float
    items: dict[str, int] = field(default_factory=dict[str, int])


class Baskets:
    """All baskets, by handle."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._baskets: dict[str, Basket] = {}

    def open(self, owner: str | None) -> str:
        """A new basket; gives its handle."""
        now = self._clock()
        self._baskets = {handle: basket for handle, basket in self._baskets.items() if basket.good_until > now}
        if len(self._baskets) >= MOST_BASKETS:
            raise ToolError("There are too many baskets at the moment; try again later.")
        handle = f"basket_{secrets.token_urlsafe(18)}"
        self._baskets[handle] = Basket(owner, now + self._seconds)
        return handle

    def find(self, handle: str, owner: str | None) -> Basket:
        """The basket of a handle, which lives on for a while from now."""
        basket, now = self._baskets.get(handle), self._clock()
        if basket is None or basket.owner != owner or basket.good_until <= now:
            raise ToolError("This basket does not exist or has expired. Use open_basket for a new one.")
        basket.good_until = now + self._seconds
        return basket

    def close(self, handle: str) -> None:
        """Forget a basket."""
        self._baskets.pop(handle, None)


server = Server("basket", version="1.0.0", instructions="Begin with open_basket and pass its handle to the others.")
baskets = Baskets(MINUTES * 60)

Handle = Annotated[str, Param("The handle that open_basket gave", max_length=64)]


@dataclass
class Total:
    """What is in a basket and what it costs."""

    items: dict[str, int]
    cents: int


def _total(basket: Basket) -> Total:
    return Total(basket.items, sum(PRICES[item] * count for item, count in basket.items.items()))


@server.tool(description=f"Open a basket. Its handle is good until it was not used for {MINUTES} minutes.")
async def open_basket(ctx: Context) -> str:
    return baskets.open(ctx.principal)


@server.tool(idempotent=False)
async def add_item(
    basket: Handle,
    item: Annotated[str, Param(f"One of {', '.join(PRICES)}")],
    ctx: Context,
    count: Annotated[int, Param("How many", ge=1, le=99)] = 1,
) -> Total:
    """Put something into a basket."""
    found = baskets.find(basket, ctx.principal)
    if item not in PRICES:
        raise ToolError(f"There is no {item!r}; there is {', '.join(PRICES)}.")
    found.items[item] = found.items.get(item, 0) + count
    return _total(found)


@server.tool(read_only=True)
async def show_basket(basket: Handle, ctx: Context) -> Total:
    """Tell what is in a basket."""
    return _total(baskets.find(basket, ctx.principal))


@server.tool(destructive=True)
async def check_out(basket: Handle, ctx: Context) -> str:
    """Buy what is in a basket; its handle is no good afterwards."""
    total = _total(baskets.find(basket, ctx.principal))
    baskets.close(basket)
    return f"Bought for {total.cents / 100:.2f} EUR."


if __name__ == "__main__":
    server.run()
