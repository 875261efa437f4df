"""The store in memory is light, gives memory back, and never waits."""

import asyncio
import gc
import threading
import tracemalloc
from collections.abc import Coroutine
from typing import Any

import pytest

from dovetail.storage.contract import LogEntries
from dovetail.storage.memory import MemoryStore
from tests.storage.test_contract import Clock


def at_once(operation: Coroutine[Any, Any, Any]) -> Any:
    """Run an operation that must not wait, without any loop."""
    with pytest.raises(StopIteration) as result:
        operation.send(None)
    return result.value.value


def used() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_no_operation_suspends() -> None:
    store = MemoryStore()
    assert at_once(store.put("a", b"1", 10)) is None
    assert at_once(store.get("a")) == b"1"
    assert at_once(store.add("a", b"2")) is False
    assert at_once(store.touch("a", 10)) is True
    assert at_once(store.replace("a", b"3", 10)) is True
    assert at_once(store.append("log", [b"1"])) == 1
    assert at_once(store.read("log", 0, 1)) == [(1, b"1")]
    assert at_once(store.claim("log", "me")) == 1
    assert at_once(store.join("x", "me", 1, 1)) is True
    assert at_once(store.take("x", 1, 1)) == 0
    assert at_once(store.delete("a")) is True


@pytest.mark.parametrize("ttl", [None, 1800.0])
def test_an_entry_costs_less_than_300_bytes(ttl: float | None) -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    names = [f"session:{n:032x}" for n in range(10_000)]
    tracemalloc.start()
    try:
        before = used()
        for name in names:
            clock.now += 0.01
            at_once(store.put(name, b"same", ttl))
        cost = (used() - before) / len(names)
    finally:
        tracemalloc.stop()
    assert cost < 300, f"{cost:.0f} bytes an entry"


@pytest.mark.parametrize("kind", ["entries", "logs", "members", "groups", "buckets"])
def test_memory_comes_back_from_what_has_ended(kind: str) -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    tracemalloc.start()
    try:
        before = used()
        for n in range(10_000):
            clock.now += 0.001
            match kind:
                case "entries":
                    at_once(store.put(f"{n}", bytes(100), 60))
                case "logs":
                    at_once(store.append(f"{n}", [bytes(100)], 60))
                case "members":
                    at_once(store.join("group", f"member {n}", 60, 10_000))
                case "groups":
                    at_once(store.join(f"group {n}", "member", 60, 1))
                case _:
                    at_once(store.take(f"bucket {n}", 0.1, 6, 6))
        full = used() - before
        clock.now += 60
        # Any operation frees a part: a store that is in use needs nobody to tidy up.
        for _ in range(100):
            at_once(store.get("anything"))
        left = used() - before
    finally:
        tracemalloc.stop()
    assert full > 1_000_000
    assert left < 20_000, f"{left} of {full} bytes are still there"


def test_one_operation_does_not_free_everything_at_once() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    for n in range(1000):
        at_once(store.put(f"{n}", b"", 60))
    clock.now += 60
    at_once(store.get("anything"))
    assert len(store._entries) == 900
    assert at_once(store.get("999")) is None, "but no caller sees what has expired"
    assert len(store._entries) == 800


def test_renewing_and_replacing_leave_nothing_behind() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    tracemalloc.start()
    try:
        at_once(store.put("session", b"", 1800))
        before = used()
        for n in range(5_000):
            clock.now += 0.01
            at_once(store.touch("session", 1800 - n % 2))
            at_once(store.add("once", b"", 1800))
            at_once(store.delete("once"))
        grown = used() - before
    finally:
        tracemalloc.stop()
    assert grown < 30_000, f"{grown} bytes after 5,000 renewals"


async def test_an_entry_from_another_thread_arrives_on_the_event_loop_of_the_follower() -> None:
    store = MemoryStore()
    arrived: asyncio.Future[tuple[LogEntries, int]] = asyncio.get_running_loop().create_future()
    await store.follow("log", 0, lambda entries: arrived.set_result((entries, threading.get_ident())))
    thread = threading.Thread(target=lambda: asyncio.run(store.append("log", [b"hello"])))
    thread.start()
    assert await arrived == ([(1, b"hello")], threading.get_ident())
    thread.join()


def test_the_store_is_not_shared_with_other_processes() -> None:
    assert not MemoryStore().shared


def test_threads_do_not_disturb_each_other() -> None:
    store = MemoryStore()
    start = threading.Barrier(4)
    won: list[int] = []

    def race() -> None:
        start.wait()
        for n in range(2000):
            if at_once(store.add(f"{n}", b"", 60)):
                won.append(n)
            at_once(store.append("log", [b""], keep=10))

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(2000))
    assert at_once(store.last("log")) == 8000
