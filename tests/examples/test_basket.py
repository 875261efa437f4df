"""examples/basket.py: a handle is opaque, belongs to one owner, and expires."""

import pytest

from dovetail import Client, ToolError, ToolFailed
from examples import basket
from examples.basket import MINUTES, Baskets


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(basket, "baskets", Baskets(MINUTES * 60, clock))
    return clock


async def test_a_basket_is_filled_and_bought(revision: str, clock: Clock) -> None:
    async with Client(basket.server, revision=revision) as c:
        handle = (await c.call("open_basket")).data
        await c.call("add_item", basket=handle, item="tea", count=2)
        assert (await c.call("add_item", basket=handle, item="cup")).data == {
            "items": {"tea": 2, "cup": 1},
            "cents": 1400,
        }
        assert (await c.call("check_out", basket=handle)).data == "Bought for 14.00 EUR."
        with pytest.raises(ToolFailed, match="does not exist or has expired"):
            await c.call("show_basket", basket=handle)


async def test_a_handle_outlives_its_connection(clock: Clock) -> None:
    async with Client(basket.server) as c:
        handle = (await c.call("open_basket")).data
    async with Client(basket.server) as c:
        assert (await c.call("show_basket", basket=handle)).data == {"items": {}, "cents": 0}


async def test_an_expired_handle_is_an_error_result(revision: str, clock: Clock) -> None:
    async with Client(basket.server, revision=revision) as c:
        handle = (await c.call("open_basket")).data
        clock.now = MINUTES * 60 - 1
        await c.call("show_basket", basket=handle)  # a use lets it live on
        clock.now += MINUTES * 60
        result = await c.call("show_basket", basket=handle, check=False)
        assert result.is_error and "open_basket" in result.text


async def test_the_lifetime_is_in_the_description(clock: Clock) -> None:
    async with Client(basket.server) as c:
        described = {tool.name: tool.description or "" for tool in await c.tools()}
        assert f"{MINUTES} minutes" in described["open_basket"]


def test_the_owner_is_checked_at_each_use_and_told_nothing() -> None:
    baskets = Baskets(60, Clock())
    handle = baskets.open("ann")
    assert baskets.find(handle, "ann").owner == "ann"
    words: set[str] = set()
    for wrong, owner in ((handle, "bob"), (handle, None), (handle[:-1], "ann"), ("", None)):
        with pytest.raises(ToolError) as problem:
            baskets.find(wrong, owner)
        words.add(str(problem.value))
    assert len(words) == 1


def test_handles_do_not_repeat_and_baskets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    baskets = Baskets(60, clock)
    monkeypatch.setattr(basket, "MOST_BASKETS", 50)
    assert len({baskets.open(None) for _ in range(50)}) == 50
    with pytest.raises(ToolError, match="too many"):
        baskets.open(None)
    clock.now = 61
    baskets.open(None)
