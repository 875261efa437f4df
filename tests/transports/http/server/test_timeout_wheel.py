"""A coarse clock: it calls back for what is still there, not too early, and not much too late."""

from __future__ import annotations

import asyncio

from dovetail.transports.http.server.timeout_wheel import TimeoutWheel
from tests.support.clock import Clock


async def test_what_is_still_there_is_called_back_for_once() -> None:
    clock, called = Clock(), list[str]()
    wheel = TimeoutWheel[str](4, called.append)
    wheel.add("a")
    for _ in range(4):
        await clock.advance(1)
    assert called == [], "never before its time"
    await clock.advance(1)
    assert called == ["a"]
    for _ in range(10):
        await clock.advance(1)
    assert called == ["a"]


async def test_what_was_taken_out_is_not() -> None:
    clock, called = Clock(), list[str]()
    wheel = TimeoutWheel[str](4, called.append)
    wheel.add("a")
    wheel.add("b")
    wheel.discard("a")
    wheel.discard("nobody")
    for _ in range(6):
        await clock.advance(1)
    assert called == ["b"]


async def test_each_has_its_own_time() -> None:
    clock, called = Clock(), list[str]()
    wheel = TimeoutWheel[str](4, called.append)
    wheel.add("a")
    await clock.advance(1)
    await clock.advance(1)
    wheel.add("b")
    for _ in range(3):
        await clock.advance(1)
    assert called == ["a"]
    for _ in range(2):
        await clock.advance(1)
    assert called == ["a", "b"]


async def test_a_callback_may_take_another_out() -> None:
    clock, called = Clock(), list[str]()

    def first(item: str) -> None:
        called.append(item)
        wheel.discard("b")

    wheel = TimeoutWheel[str](4, first)
    wheel.add("a")
    wheel.add("b")
    for _ in range(6):
        await clock.advance(1)
    assert called == ["a"]


async def test_nothing_ticks_while_there_is_nothing_to_wait_for() -> None:
    clock, wheel = Clock(), TimeoutWheel[str](4, lambda _: None)
    wheel.add("a")
    wheel.discard("a")
    await clock.advance(1)
    assert not [handle for handle in asyncio.get_running_loop()._scheduled if "_tick" in repr(handle)]  # type: ignore[attr-defined]
