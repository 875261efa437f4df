"""examples/basket.py: a basket is filled and bought under an opaque id, which expires."""

import pytest

from dovetail import Client, ToolFailed
from dovetail.storage import MemoryStore
from examples.basket import MINUTES, server
from tests.support.http import serving


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_basket_is_filled_and_bought(revision: str) -> None:
    async with Client(server, revision=revision) as c:
        basket = (await c.call("open_basket")).data
        await c.call("add_item", basket=basket, item="tea", count=2)
        assert (await c.call("add_item", basket=basket, item="cup")).data == {
            "items": {"tea": 2, "cup": 1},
            "cents": 1400,
        }
        assert (await c.call("check_out", basket=basket)).data == "Bought for 14.00 EUR."
        with pytest.raises(ToolFailed, match="There is no basket with this id, or it has expired"):
            await c.call("show_basket", basket=basket)


async def test_a_basket_outlives_its_connection() -> None:
    async with Client(server) as c:
        basket = (await c.call("open_basket")).data
    async with Client(server) as c:
        assert (await c.call("show_basket", basket=basket)).data == {"items": {}, "cents": 0}


async def test_an_expired_basket_is_an_error_result(revision: str) -> None:
    clock = Clock()
    async with (
        serving(server.asgi(store=MemoryStore(clock=clock))) as url,
        Client(f"{url}/mcp", revision=revision) as c,
    ):
        basket = (await c.call("open_basket")).data
        clock.now = MINUTES * 60 - 1
        await c.call("show_basket", basket=basket)  # each use starts the time again
        clock.now += MINUTES * 60 + 1
        result = await c.call("show_basket", basket=basket, check=False)
        assert result.is_error and "open_basket" in result.text


async def test_the_lifetime_is_in_the_description() -> None:
    async with Client(server) as c:
        described = {tool.name: tool.description or "" for tool in await c.tools()}
        assert f"{MINUTES} minutes" in described["open_basket"]
