"""A server that asks and then pays, and writes each payment into a file."""

from __future__ import annotations

import os

from dovetail import Context, Server

KEYS = [key.encode() for key in os.environ.get("STATE_KEYS", "").split(",") if key]

server = Server("paying", state_keys=KEYS, page_size=2)


@server.tool
async def buy(ctx: Context) -> str:
    """Ask, then pay."""
    await ctx.elicit("Buy?", bool)
    return await ctx.step("pay", pay)


def pay() -> str:
    with open(os.environ["PAYMENTS"], "a") as file:
        file.write("paid\n")
    return "paid"


for number in range(3):
    server.tool(pay, name=f"pay_{number}")
