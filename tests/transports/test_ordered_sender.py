"""Messages that arrive in order."""

import asyncio

from dovetail.transports.ordered_sender import OrderedSender
from tests.support.peer import nothing_left
from tests.support.waiting import settled


async def test_each_after_the_one_before():
    done: list[int] = []
    running = 0

    async def deliver(n: int) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await settled(5 - n)
        running -= 1
        done.append(n)

    lane = OrderedSender(deliver)
    before = asyncio.all_tasks()
    for n in range(3):
        lane.put(n)
    await lane.finish(5)
    assert done == [0, 1, 2]
    assert len(lane) == 0
    await nothing_left(before)
    lane.put(3)
    await lane.finish(5)
    assert done == [0, 1, 2, 3]


async def test_what_takes_too_long_at_the_end_is_given_up():
    started: list[int] = []

    async def deliver(n: int) -> None:
        started.append(n)
        await asyncio.Event().wait()

    lane = OrderedSender(deliver)
    before = asyncio.all_tasks()
    lane.put(0)
    lane.put(1)
    await lane.finish(0.01)
    assert started == [0]
    assert len(lane) == 0
    await nothing_left(before)


async def test_an_end_without_a_beginning():
    async def deliver(n: int) -> None: ...

    await OrderedSender(deliver).finish(1)
