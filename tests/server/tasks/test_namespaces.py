"""Tasks of servers with different tools on one store: each server runs, and finds, those of its own namespace."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from dovetail import Client, TaskNotFound
from dovetail.protocol.tasks import TaskRecord
from dovetail.server.sealed_values import SealedValues
from dovetail.server.tasks import tasks as module
from dovetail.server.tasks.stored_tasks import StoredTasks, handle_of
from dovetail.storage import MemoryStore, SqliteStore
from tests.server.tasks.test_fencing import Process, wait_for


def process_of(namespace: str, name: str, folder: Path, ran: list[str]) -> tuple[Process, SqliteStore]:
    store = SqliteStore(folder / "store.db")
    process = Process(name, store, ran)
    process.core.task_namespace = namespace
    return process, store


async def worker_of(process: Process, id: str) -> str:
    """The process that runs a task, as another process reads it."""
    found = await process.core.tasks.stored.find(handle_of(id))
    assert found is not None
    return found.record.worker


async def test_a_task_of_a_dead_process_is_resumed_in_its_own_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of another namespace finds that the first one is dead, and leaves the task to others."""
    monkeypatch.setattr(module, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    ran: list[str] = []
    dead, store = process_of("one", "dead", tmp_path, ran)
    stranger, other_store = process_of("other", "stranger", tmp_path, ran)
    successor, third_store = process_of("one", "successor", tmp_path, ran)
    for process in (stranger, successor):
        process.go_on.set()
    async with (
        dead.shared.attached(0),
        stranger.shared.attached(0),
        Client(dead.server) as starting,
        Client(stranger.server) as elsewhere,
    ):
        task = await starting.start("work")
        assert task.id is not None
        await wait_for(lambda: dead.recorded)
        await dead.miss_heartbeats()
        async with asyncio.timeout(20):
            while await worker_of(stranger, task.id):
                await asyncio.sleep(0.01)
        with pytest.raises(TaskNotFound):
            await elsewhere.task(task.reference).refresh()
        # It takes a task of its own from its queue, and would have taken this one with it.
        own = await elsewhere.start("work")
        assert (await own.result()).text == "stranger"
        async with successor.shared.attached(0), Client(successor.server) as client:
            assert (await client.task(task.reference).result()).text == "successor"
    assert ran == ["dead first", "stranger first", "stranger second", "successor second"]
    for opened in (store, other_store, third_store):
        await opened.close()


async def test_a_record_without_a_namespace_is_one_of_a_plain_server(tmp_path: Path) -> None:
    """Records and groups of a plain server are those of versions that knew no namespaces."""
    now = time.time()
    record = TaskRecord(
        id="an id", tool="keep", arguments={}, revision="2026-07-28", created=now, updated=now, principal="ann"
    )
    assert b"namespace" not in msgspec.json.encode(record)
    store = MemoryStore()
    process, own_store = process_of("", "plain", tmp_path, [])
    plain = StoredTasks(store, SealedValues(process.core))
    await plain.add(record)
    assert await store.members("task-queue", 10) == await plain.queued(10) == [handle_of("an id")]
    other = StoredTasks(store, SealedValues(process.core), namespace="server/one")
    assert await other.queued(10) == await other.handles_of("ann") == []
    await other.add(msgspec.structs.replace(record, id="another", namespace="server/one"))
    assert await other.queued(10) == await other.handles_of("ann") == [handle_of("another")]
    assert await plain.queued(10) == await plain.handles_of("ann") == [handle_of("an id")]
    await own_store.close()
