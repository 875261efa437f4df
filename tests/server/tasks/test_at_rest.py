"""Tasks in a store that others may read, and for how long they are kept there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from dovetail import Server
from dovetail.protocol.key_periods import PERIOD_SECONDS
from dovetail.protocol.seal import KeyRing
from dovetail.protocol.tasks import MAX_TTL_SECONDS, WORKING_SECONDS, Event, TaskRecord
from dovetail.server.mrtr.stored_keys import StoredKeys
from dovetail.server.sealed_values import SealedValues
from dovetail.server.tasks import stored_tasks
from dovetail.server.tasks.stored_tasks import StoredTasks, handle_of
from dovetail.storage import MemoryStore, SqliteStore, Store, open_store
from dovetail.testing import VirtualClock
from tests.support.http_process import HttpProcess
from tests.support.redis_server import PROGRAM, WHY_NOT, redis_server
from tests.support.served import served
from tests.support.task_caller import TaskCaller

SERVER = '''
from dataclasses import dataclass
from dovetail import Context, Server

TOKENS = {"a-token-of-alice": "alice-the-principal"}
server = Server("vault", auth=TOKENS.get)

@dataclass
class Secret:
    text: str

@server.tool(task="required")
async def keep(secret: str, ctx: Context) -> str:
    """Keep a secret."""
    step = await ctx.step("step", lambda: "the-outcome-of-a-step")
    answer = await ctx.elicit("a-question-to-alice", Secret)
    return f"the-result: {secret}, {step}, {answer.data.text}"
'''


class Secrets:
    """A file of a store, or of all that Redis keeps."""

    def __init__(self, url: str, files: list[Path], save: object = None) -> None:
        self.url = url
        self._files = files
        self._save = save

    def content(self) -> bytes:
        if callable(self._save):
            self._save()
        return b"".join(file.read_bytes() for file in self._files if file.exists())


@pytest.fixture(params=["sqlite", "redis"])
def readable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Secrets]:
    if request.param == "sqlite":
        file = tmp_path / "store.db"
        yield Secrets(str(file), [file, tmp_path / "store.db-wal"])
        return
    if PROGRAM is None:
        pytest.skip(WHY_NOT)
    with redis_server(tmp_path / "redis", "--rdbcompression", "no") as redis:
        yield Secrets(redis.url, [tmp_path / "redis" / "dump.rdb"], lambda: redis.ask("SAVE"))


def test_nothing_of_a_task_can_be_read_in_its_store(readable: Secrets, tmp_path: Path) -> None:
    (tmp_path / "vault.py").write_text(SERVER)
    with HttpProcess(tmp_path / "vault.py", "--store", readable.url) as process:
        alice = TaskCaller(process.port, token="a-token-of-alice")
        id = alice.start("keep", secret="an-argument-of-alice")
        task = alice.wait_until(id, ["input_required"])
        waiting = readable.content()
        alice.answer(task, {"text": "an-answer-of-alice"})
        status, result = alice.outcome(id)
        assert (status, result) == (
            "completed",
            "the-result: an-argument-of-alice, the-outcome-of-a-step, an-answer-of-alice",
        )
        ended = readable.content()
    # The handle of the task proves that these are the bytes of the store.
    assert handle_of(id).encode() in waiting and handle_of(id).encode() in ended
    words = ["an-argument", "the-outcome", "a-question", "an-answer", "the-result", "alice", "a-token", id, "keep"]
    assert [word for word in words if word.encode() in waiting + ended] == []


class Process:
    """The keys and the tasks of one process, at a time that a test sets."""

    def __init__(self, store: Store, now: float) -> None:
        self.store, self.now = store, now
        self.key_ring = KeyRing([os.urandom(32)])
        self.stored_keys = StoredKeys(self.key_ring, store, clock=lambda: self.now)
        self.tasks = StoredTasks(store, SealedValues(self), clock=lambda: self.now)


def record(now: float, **fields: object) -> TaskRecord:
    made = TaskRecord(id="an id", tool="keep", arguments={"a": 1}, revision="2026-07-28", created=now, updated=now)
    return msgspec.structs.replace(made, **fields)


async def test_a_task_is_opened_with_keys_that_are_weeks_old(tmp_path: Path) -> None:
    now = time.time()
    store = SqliteStore(tmp_path / "store.db")
    await Process(store, now).tasks.add(record(now, ttl=MAX_TTL_SECONDS))
    for days in (1, 3, 20, 29):
        found = await Process(store, now + days * PERIOD_SECONDS).tasks.find(handle_of("an id"))
        assert found is not None and found.record.arguments == {"a": 1}, days
    assert await Process(store, now + MAX_TTL_SECONDS + 1).tasks.find(handle_of("an id")) is None
    await store.close()


@contextlib.asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[Store]:
    if kind == "redis" and PROGRAM is None:
        pytest.skip(WHY_NOT)
    with contextlib.ExitStack() as servers:
        if kind == "memory":
            store: Store = MemoryStore()
        elif kind == "sqlite":
            store = SqliteStore(folder / "store.db")
        else:
            store = open_store(servers.enter_context(redis_server(folder / "redis")).url)
        try:
            yield store
        finally:
            await store.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
async def test_a_task_and_its_places_in_groups_expire(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_tasks, "WORKING_SECONDS", 0.1)
    async with opened(kind, tmp_path) as store:
        tasks = Process(store, time.time()).tasks
        tasks.clock = time.time
        now = time.time()
        ended = await tasks.add(record(now, principal="alice", ttl=0.3, limited_as="alice"))
        done = ended.record.change(Event.RETURNED, time.time(), result={"content": []})
        assert done is not None and await tasks.swap(ended, done) is not None
        await tasks.end(done, "")
        waits = await tasks.add(record(now, id="another", principal="alice", ttl=0.3, limited_as="alice"))
        asks = waits.record.change(Event.ASKED, time.time())
        assert asks is not None and await tasks.swap(waits, asks) is not None
        await tasks.dequeue(handle_of("an id"))
        await tasks.dequeue(handle_of("another"))
        group = f"open-tasks:{stored_tasks._digest('alice')}"  # pyright: ignore[reportPrivateUsage]
        assert await store.members(group, 10) == [handle_of("another")], "one that has ended does not count"
        assert set(await tasks.handles_of("alice")) == {handle_of("an id"), handle_of("another")}
        await asyncio.sleep(1.4)
        assert await store.get(f"task:{handle_of('an id')}") is None
        assert await store.get(f"task:{handle_of('another')}") is None
        assert await tasks.handles_of("alice") == [] and await store.members(group, 10) == []


def test_a_task_does_not_expire_while_it_works_however_long_that_takes() -> None:
    server = Server("slow")

    @server.tool(task="required", ttl=5)
    async def slow() -> str:
        """Work for an hour."""
        await asyncio.sleep(3600)
        return "done"

    async def main() -> None:
        with VirtualClock(server) as clock:
            async with served(server, "2025-11-25") as client:
                id = (await client.result("tools/call", name="slow", arguments={}, task={}))["task"]["taskId"]
                for _ in range(59):
                    await clock.advance(WORKING_SECONDS)
                    assert (await client.result("tasks/get", taskId=id))["status"] == "working"
                await clock.advance(WORKING_SECONDS)
                task = await client.result("tasks/get", taskId=id)
                assert task["status"] == "completed" and task["ttl"] == pytest.approx(3_605_000, abs=2000)
                await clock.advance(6)
                assert (await client.refusal("tasks/get", taskId=id))["code"] == -32602

    asyncio.run(main())
