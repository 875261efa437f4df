"""Backpressure: senders wait above the high-water mark, readers wait at a closed gate."""

import asyncio

from dovetail.transports.backpressure import ReadGate, UnsentBytes
from tests.support.raw import PATIENCE
from tests.support.waiting import settled


class TestUnsentBytes:
    async def test_only_more_than_the_high_water_mark_is_congestion(self):
        unsent = UnsentBytes(100)
        unsent.add(100)
        assert not unsent.congested
        await unsent.drained()
        unsent.add(1)
        assert unsent.congested

    async def test_waiting_senders_go_on_once_enough_was_sent(self):
        unsent = UnsentBytes(100)
        unsent.add(300)
        waiting = [asyncio.create_task(unsent.drained()) for _ in range(3)]
        unsent.remove(100)
        await settled()
        assert not any(task.done() for task in waiting)
        unsent.remove(100)
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*waiting)
        assert unsent.size == 100

    async def test_a_sender_that_finds_new_congestion_waits_on(self):
        unsent = UnsentBytes(100)
        unsent.add(200)
        waiting = asyncio.create_task(unsent.drained())
        await settled()
        unsent.remove(200)
        unsent.add(200)
        await settled()
        assert not waiting.done()
        unsent.close()
        await asyncio.wait_for(waiting, PATIENCE)

    async def test_emptied_waits_for_the_last_byte(self):
        unsent = UnsentBytes(100)
        unsent.add(50)
        waiting = asyncio.create_task(unsent.emptied())
        await settled()
        unsent.remove(49)
        await settled()
        assert not waiting.done()
        unsent.remove(1)
        await asyncio.wait_for(waiting, PATIENCE)

    async def test_a_lost_connection_ends_all_waiting_and_counts_nothing(self):
        unsent = UnsentBytes(100)
        unsent.add(200)
        waiting = [asyncio.create_task(unsent.drained()), asyncio.create_task(unsent.emptied())]
        await settled()
        unsent.close()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*waiting)
        unsent.add(500)
        unsent.remove(100)
        assert (unsent.size, unsent.congested, unsent.closed) == (0, False, True)

    async def test_a_cancelled_sender_disturbs_no_other(self):
        unsent = UnsentBytes(100)
        unsent.add(200)
        cancelled, waiting = (asyncio.create_task(unsent.drained()) for _ in range(2))
        await settled()
        cancelled.cancel()
        await settled()
        unsent.remove(200)
        await asyncio.wait_for(waiting, PATIENCE)


class TestReadGate:
    async def test_an_open_gate_lets_readers_through_at_once(self):
        gate = ReadGate()
        assert not gate.closed
        await gate.wait_open()

    async def test_a_closed_gate_holds_readers_until_it_is_opened(self):
        gate = ReadGate()
        gate.close()
        waiting = [asyncio.create_task(gate.wait_open()) for _ in range(2)]
        await settled()
        assert gate.closed
        assert not any(task.done() for task in waiting)
        gate.open()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*waiting)

    async def test_a_gate_that_is_closed_again_at_once_holds_readers(self):
        gate = ReadGate()
        gate.close()
        waiting = asyncio.create_task(gate.wait_open())
        await settled()
        gate.open()
        gate.close()
        await settled()
        assert not waiting.done()
        gate.open()
        await asyncio.wait_for(waiting, PATIENCE)
