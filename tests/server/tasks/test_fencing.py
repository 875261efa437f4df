"""Two processes and a task that one took over while the other was stopped: only one of them goes on with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dovetail import Client, Context, Server
from dovetail.server.core import ServerCore
from dovetail.server.replicas import replica as replica_module
from dovetail.server.replicas.messages import TaskChanged
from dovetail.server.replicas.replica import ALIVE_SECONDS, Replica
from dovetail.server.replicas.shared_store import SharedStore
from dovetail.server.tasks import tasks as module
from dovetail.server.tasks.stored_tasks import handle_of
from dovetail.storage import SqliteStore


class Process:
    """A server with a task of two steps, the second of which waits until a test lets it begin."""

    def __init__(self, name: str, store: SqliteStore, ran: list[str]) -> None:
        self.name = name
        self.server = Server("both")
        self.go_on = asyncio.Event()
        self._ran = ran
        self.recorded = False
        """True once the outcome of the first step is kept."""
        self.server.tool(self.work, task="required", resume=True)
        self.core: ServerCore = self.server._core  # pyright: ignore[reportPrivateUsage]
        self.shared = SharedStore(self.core, store)

    async def work(self, ctx: Context) -> str:
        """Work in two steps."""
        await ctx.step("first", lambda: self._ran.append(f"{self.name} first"))
        self.recorded = True
        await self.go_on.wait()
        await ctx.step("second", lambda: self._ran.append(f"{self.name} second"))
        return self.name

    @property
    def replica(self) -> Replica:
        assert self.shared.replica is not None
        return self.shared.replica

    async def miss_heartbeats(self) -> None:
        """Be as if stopped for longer than others wait, and not yet told of what happened meanwhile."""
        for subscription in self.replica._subscriptions:  # pyright: ignore[reportPrivateUsage]
            subscription.close()
        for task in self.replica._tasks:  # pyright: ignore[reportPrivateUsage]
            if task.get_name() == "dovetail-heartbeat":
                task.cancel()
        self.replica._beaten = asyncio.get_running_loop().time() - ALIVE_SECONDS  # pyright: ignore[reportPrivateUsage]
        await self.replica.store.delete(f"replica:{self.replica.id}")


@contextlib.asynccontextmanager
async def two_processes(folder: Path, ran: list[str]) -> AsyncIterator[tuple[Process, Process]]:
    store, other_store = SqliteStore(folder / "store.db"), SqliteStore(folder / "store.db")
    one, other = Process("one", store, ran), Process("other", other_store, ran)
    try:
        async with one.shared.attached(0), other.shared.attached(0):
            yield one, other
    finally:
        await store.close()
        await other_store.close()


async def wait_for(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("looks_first", [True, False], ids=["heartbeat-first", "step-first"])
async def test_a_process_whose_heartbeat_lapsed_runs_no_step_of_a_task_that_others_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks_first: bool
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(module, "WATCH_SECONDS", 0.05)
    async with (
        two_processes(tmp_path, ran) as (one, other),
        Client(one.server) as starting,
        Client(other.server) as client,
    ):
        task = await starting.start("work")
        await wait_for(lambda: one.recorded)
        await one.miss_heartbeats()
        other.go_on.set()
        await wait_for(lambda: ran == ["one first", "other second"])
        if looks_first:
            await one.replica.beat()  # it counts as alive again when it comes to its next step
            assert one.replica.has_beaten and one.replica.lapses == 1
        one.go_on.set()
        text = (await client.task(task.reference).result()).text
        await wait_for(lambda: len(one.core.tasks) == 0)
        assert text == "other" and ran == ["one first", "other second"]


async def test_a_process_that_was_cut_off_for_a_while_goes_on_if_nobody_took_its_task_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(module, "WATCH_SECONDS", 0.05)
    async with two_processes(tmp_path, ran) as (one, other), Client(one.server) as client:
        task = await client.start("work")
        await wait_for(lambda: one.recorded)
        # The other one was cut off too: after that it gives all processes time to show that they live.
        other.replica.lapsed = asyncio.get_running_loop().time()
        await one.miss_heartbeats()
        await one.replica.beat()
        one.go_on.set()
        text = (await task.result()).text
        assert text == "one" and ran == ["one first", "one second"]


class CountingStore(SqliteStore):
    """A store that counts how often a process asks whether it is to look for dead ones, and how often it looks."""

    asked = looked = 0

    async def add(self, key: str, value: bytes, ttl: float | None = None) -> bool:
        self.asked += key == "task-workers-looked-after"
        return await super().add(key, value, ttl)

    async def members(self, group: str, limit: int) -> list[str]:
        self.looked += group == "task-workers"
        return await super().members(group, limit)


async def test_one_process_looks_for_dead_ones_on_behalf_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(module, "LOOK_SECONDS", 3600.0)
    stores = [CountingStore(tmp_path / "store.db") for _ in range(3)]
    processes = [Process(f"{number}", store, []) for number, store in enumerate(stores)]
    async with contextlib.AsyncExitStack() as stack:
        for process, store in zip(processes, stores, strict=True):
            stack.push_async_callback(store.close)
            await stack.enter_async_context(process.shared.attached(0))
            assert process.core.tasks.takes_tasks
        await wait_for(lambda: all(store.asked >= 5 for store in stores))
        assert sum(store.looked for store in stores) == 1
        # The next interval belongs to whoever asks first, whether or not the last one is still alive.
        await stores[0].delete("task-workers-looked-after")
        await wait_for(lambda: sum(store.looked for store in stores) == 2)


async def test_a_task_is_watched_on_after_announcements_were_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for a result at one process hears that the task has ended at another, without a message of it."""
    monkeypatch.setattr(replica_module, "MAX_ANNOUNCEMENTS", 20)
    ran: list[str] = []
    async with two_processes(tmp_path, ran) as (one, other), Client(one.server) as starting:
        task = await starting.start("work")
        await wait_for(lambda: one.recorded)
        seen: list[str] = []
        assert task.id is not None
        handle = handle_of(task.id)
        other.core.tasks.watch(handle, lambda record: seen.append(record.status))
        for subscription in other.replica._subscriptions:  # pyright: ignore[reportPrivateUsage]
            subscription.close()
        one.go_on.set()
        await task.result()
        for number in range(40):
            one.replica.announce(TaskChanged(f"{number}"))
            if number % 10 == 9:  # fewer than the replica keeps until they are sent
                await wait_for(lambda: not one.replica._has_outgoing.is_set())  # pyright: ignore[reportPrivateUsage]
        last = await one.replica.store.last("announcements")
        assert not seen
        await other.replica.store.follow(
            "announcements",
            other.replica.position,
            other.replica._announced,  # pyright: ignore[reportPrivateUsage]
        )
        await wait_for(lambda: other.replica.position == last and seen == ["completed"])
