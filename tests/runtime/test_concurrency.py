"""A bound on how many run at once."""

import asyncio

import pytest

from dovetail.protocol.errors import LocalError
from dovetail.runtime.concurrency import Turns


async def most_at_once(turns: Turns, count: int) -> int:
    running = most = 0

    async def run() -> None:
        nonlocal running, most
        async with turns.here():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(run() for _ in range(count)))
    return most


async def test_never_more_than_the_limit():
    assert await most_at_once(Turns(3), 20) == 3


def test_the_same_turns_serve_one_loop_after_the_other():
    turns = Turns(2)
    for _ in range(2):
        assert asyncio.run(most_at_once(turns, 10)) == 2


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_lets_nobody_run_is_refused(limit: int):
    with pytest.raises(LocalError, match="At least one call must be able to run at once"):
        Turns(limit)
