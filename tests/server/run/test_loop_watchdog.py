"""A handler that blocks the event loop is named, with its place; one that does not is never."""

import asyncio
import logging
import sys
import threading
from pathlib import Path

import pytest

from dovetail import Client
from dovetail.server.run.loop_watchdog import LoopWatchdog, blocked_place
from tests.support.waiting import until

SERVER = """
import asyncio, time
from dovetail import Server

server = Server("slow")

def helper():
    time.sleep(1.0)

@server.tool
async def blocks() -> int:
    '''Block.'''
    helper()
    return 1

@server.resource("slow://page")
async def page() -> str:
    '''Block as well.'''
    time.sleep(1.1)
    return ""

@server.tool
async def waits() -> int:
    '''Wait.'''
    await asyncio.sleep(1.0)
    return 1

@server.tool
def works() -> int:
    '''Block a thread.'''
    time.sleep(1.0)
    return 1

server.run()
"""
ADVICE = "; no other request was served meanwhile. Make the handler a plain def, which runs in a thread, or await."


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    (tmp_path / "slow.py").write_text(SERVER)
    return [sys.executable, str(tmp_path / "slow.py")]


@pytest.mark.slow
async def test_a_blocking_handler_is_reported_once_with_its_place(program: list[str]) -> None:
    lines: list[str] = []
    async with Client(program, on_stderr=lines.append, env={"DOVETAIL_BLOCKED_SECONDS": "0.3"}) as client:
        await asyncio.gather(client.call("waits"), client.call("works"))
        assert not lines
        await client.call("blocks")
        await client.call("blocks")
        await client.read("slow://page")
        await until(lambda: len(lines) > 1)
    tool, resource = lines
    assert tool.startswith("Tool 'blocks' blocked the event loop for at least ")
    assert tool.endswith(f" s, at slow.py:8 (time.sleep(1.0)){ADVICE}")
    assert resource.startswith("Reading slow://page blocked the event loop for at least ")
    assert ", at slow.py:19 (time.sleep(1.1))" in resource


@pytest.mark.slow
async def test_the_watchdog_can_be_switched_off(program: list[str]) -> None:
    lines: list[str] = []
    async with Client(program, on_stderr=lines.append, env={"DOVETAIL_BLOCKED_SECONDS": "0"}) as client:
        await client.call("blocks")
    assert not lines


@pytest.mark.slow
def test_a_handler_that_goes_on_blocking_is_reported_before_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    release, loop = threading.Event(), asyncio.new_event_loop()

    def block() -> None:
        LoopWatchdog(loop, threading.get_ident(), 0.01).start()
        release.wait(60)

    class Release(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            release.set()

    handler = Release()
    logging.getLogger("dovetail").addHandler(handler)
    try:
        loop.call_soon(block)
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        logging.getLogger("dovetail").removeHandler(handler)
        loop.close()
    [record] = caplog.records
    assert record.getMessage().startswith("block() has blocked the event loop for at least 5.")


def test_a_stack_without_a_frame_of_the_user_has_no_place() -> None:
    assert blocked_place(None) is None


def test_the_innermost_frame_of_the_user_is_the_place() -> None:
    place = blocked_place(sys._getframe())  # pyright: ignore[reportPrivateUsage]
    assert place is not None
    assert place.function == "test_the_innermost_frame_of_the_user_is_the_place"
    assert place.handler is None
