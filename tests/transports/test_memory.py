"""Two ends in one process: the same order, the same back-pressure and the same end as between processes."""

import asyncio

from dovetail.transports.base import HIGH_WATER
from dovetail.transports.memory import MemoryChannel, memory_pair
from tests.support.raw import PATIENCE
from tests.support.waiting import settled
from tests.transports.collector import Collector


def opened() -> tuple[MemoryChannel, MemoryChannel, Collector]:
    """Our end, the other end, and who listens there."""
    ours, theirs = memory_pair()
    seen = Collector()
    theirs.open(seen)
    return ours, theirs, seen


async def test_lines_arrive_at_the_other_end_in_order() -> None:
    ours, theirs, seen = opened()
    back = Collector()
    ours.open(back)
    for n in range(100):
        ours.send(b"%d" % n)
    theirs.send(b"hello")
    assert not seen.lines, "never within the call that sends"
    await seen.count(100)
    await back.count(1)
    assert seen.lines == [b"%d" % n for n in range(100)]
    assert back.lines == [b"hello"]


async def test_lines_sent_before_the_other_end_opens_are_delivered_then() -> None:
    ours, theirs = memory_pair()
    ours.send(b"early")
    await settled()
    seen = Collector()
    theirs.open(seen)
    await seen.count(1)
    assert seen.lines == [b"early"]


async def test_an_end_that_does_not_read_congests_the_other() -> None:
    ours, theirs, seen = opened()
    theirs.pause()
    ours.send(b"x" * HIGH_WATER)
    assert not ours.congested
    ours.send(b"y")
    assert ours.congested
    waiting = asyncio.create_task(ours.drained())
    await settled()
    assert not waiting.done()
    assert not seen.lines
    theirs.resume()
    await asyncio.wait_for(waiting, PATIENCE)
    assert not ours.congested
    assert len(seen.lines) == 2


async def test_pausing_between_two_lines_takes_effect_at_once_and_keeps_the_order() -> None:
    ours, theirs, seen = opened()
    seen.on_line = lambda line: theirs.pause() if line == b"2" else ours.send(b"4") if line == b"1" else None
    for line in (b"1", b"2", b"3"):
        ours.send(line)
    await seen.count(2)
    await settled()
    assert seen.lines == [b"1", b"2"]
    theirs.resume()
    await seen.count(4)
    assert seen.lines == [b"1", b"2", b"3", b"4"]


async def test_the_other_end_is_disconnected_after_it_has_received_everything() -> None:
    ours, _, seen = opened()
    ours.send(b"last")
    await ours.close()
    await ours.close()
    await seen.end()
    await settled()
    assert seen.lines == [b"last"]
    assert len(seen.ends) == 1


async def test_the_other_end_is_disconnected_with_the_reason_of_this_end() -> None:
    ours, _, seen = opened()
    ours.reason = "out of order"
    await ours.close()
    await seen.end()
    assert seen.ends == ["out of order"]


async def test_a_paused_end_is_disconnected_only_after_it_has_read() -> None:
    ours, theirs, seen = opened()
    theirs.pause()
    ours.send(b"unread")
    await ours.close()
    await settled()
    assert (seen.lines, seen.ends) == ([], [])
    theirs.resume()
    await seen.end()
    assert seen.lines == [b"unread"]


async def test_a_closed_end_receives_and_keeps_nothing() -> None:
    ours, theirs, seen = opened()
    await theirs.close()
    for _ in range(10):
        ours.send(b"x" * HIGH_WATER)
    await settled()
    assert seen.lines == []
    assert not ours.congested
    await ours.drained()


async def test_a_waiting_sender_goes_on_when_either_end_closes() -> None:
    for closing in (0, 1):
        ends = memory_pair()
        ends[0].send(b"x" * (HIGH_WATER + 1))
        waiting = asyncio.create_task(ends[0].drained())
        await settled()
        await ends[closing].close()
        await asyncio.wait_for(waiting, PATIENCE)
