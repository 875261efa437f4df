"""The bound on how many calls run at once."""

import asyncio

import pytest

from dovetail.protocol.errors import LocalError
from dovetail.runtime.concurrency import PerLoopSemaphore


async def most_at_once(semaphore: PerLoopSemaphore, count: int) -> int:
    running = most = 0

    async def run() -> None:
        nonlocal running, most
        async with semaphore.current():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(run() for _ in range(count)))
    return most


async def test_running_calls_never_exceed_the_limit():
    assert await most_at_once(PerLoopSemaphore(3), 20) == 3


def test_one_semaphore_serves_one_loop_after_the_other():
    semaphore = PerLoopSemaphore(2)
    for _ in range(2):
        assert asyncio.run(most_at_once(semaphore, 10)) == 2


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int):
    with pytest.raises(LocalError, match="At least one call must be able to run at once"):
        PerLoopSemaphore(limit)
