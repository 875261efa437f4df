"""What is under way and can be stopped."""

import asyncio

import pytest

from dovetail.host.running_work import RunningWork, Stopped
from dovetail.protocol.errors import ConnectionLost


async def test_what_is_stopped_says_so_and_its_task_goes_on() -> None:
    work = RunningWork()

    async def caller() -> str:
        with pytest.raises(Stopped, match="The user stopped the call"), work.piece("the call"):
            await asyncio.sleep(60)
        await asyncio.sleep(0)
        return "went on"

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    assert len(work) == 1
    await work.stop()
    assert len(work) == 0
    assert await task == "went on"
    assert not task.cancelling()


async def test_a_task_that_is_cancelled_itself_stays_cancelled() -> None:
    work = RunningWork()

    async def caller() -> None:
        with work.piece("the call"):
            await asyncio.sleep(60)

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    task.cancel()
    await work.stop()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_ends_at_the_same_moment_leaves_no_cancellation_behind() -> None:
    work, event = RunningWork(), asyncio.Event()

    async def caller() -> str:
        with work.piece("the call"):
            try:
                await event.wait()
            except asyncio.CancelledError:
                return "ended all the same"
        return "not stopped"

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    await work.stop()
    assert await task == "ended all the same"
    assert not task.cancelling()


async def test_only_what_is_for_one_server_is_dropped() -> None:
    work = RunningWork()

    async def caller(server: str) -> str:
        with work.piece("the question", server):
            await asyncio.sleep(60)
        return ""

    gone, other = asyncio.create_task(caller("gone")), asyncio.create_task(caller("other"))
    await asyncio.sleep(0)
    work.drop("gone", ConnectionLost("the server is gone"))
    with pytest.raises(ConnectionLost, match="gone"):
        await gone
    assert not other.done()
    await work.stop()
    with pytest.raises(Stopped):
        await other


async def test_whoever_stops_everything_does_not_stop_itself() -> None:
    work = RunningWork()
    with work.piece("the turn"):
        await work.stop()
        await asyncio.sleep(0)
