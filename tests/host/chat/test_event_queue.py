"""Events for whoever listens, at their own pace."""

import asyncio

from dovetail.host.chat.event_queue import EventQueue
from dovetail.host.chat.events import ToolProgress, ToolStarted
from dovetail.host.models.contract import TextDelta


def progress(id: str, done: float) -> ToolProgress:
    return ToolProgress(id=id, name="s__t", server="s", tool="t", progress=done)


async def test_events_come_in_order_until_the_queue_is_closed() -> None:
    outbox = EventQueue()

    async def listen() -> list[object]:
        return [event async for event in outbox]

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    outbox.put(TextDelta("a"))
    await asyncio.sleep(0)
    outbox.put(TextDelta("b"))
    outbox.close()
    assert await listening == [TextDelta("a"), TextDelta("b")]


async def test_a_flood_of_progress_takes_no_room() -> None:
    outbox = EventQueue()
    started = ToolStarted(id="1", name="s__t", server="s", tool="t")
    outbox.put(started)
    for number in range(10_000):
        outbox.put(progress("1", number))
        outbox.put(progress("2", -number))
    outbox.close()
    assert [event async for event in outbox] == [started, progress("1", 9_999), progress("2", -9_999)]
