"""A replica that is killed in the middle of a call: one error for it, within seconds, and nothing else is hurt."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from dovetail import Client, OutcomeUnknown
from tests.support.nginx import needs_nginx
from tests.support.raw_http import Answer, Event, Site
from tests.support.redis_server import needs_redis
from tests.support.replicas import Replica, Replicas, Watcher, change
from tests.support.waiting import until

pytestmark = [needs_nginx, needs_redis]

SOON = 15.0
"""Seconds within which a client learns that its replica is gone: a heartbeat lasts 6 s, and the machine may be busy."""


def effects(record: Path, key: str) -> list[tuple[str, int]]:
    """The steps that ran for a key, each with its process."""
    file = record / "effects"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [(step, process) for _, name, step, process, _ in lines if name == key]


def replica_of(replicas: Replicas, record: Path, key: str) -> Replica:
    """The replica at which a call runs."""
    ((_, process),) = effects(record, key)
    return next(replica for replica in replicas.all if replica.pid == process)


async def first_message(answer: Answer) -> Event:
    while (event := await answer.next()) is not None:
        if event.data:
            return event
    raise AssertionError("the stream ended")


class Held:
    """A call that waits in its handler, made by our client."""

    def __init__(self, client: Client, key: str) -> None:
        self.running = asyncio.Event()
        self.task = asyncio.create_task(client.call("hold", {"key": key}, progress=lambda *_: self.running.set()))


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_the_caller_gets_one_error_that_says_that_the_outcome_is_unknown(
    revision: str, replicas: Replicas, record: Path
) -> None:
    url = replicas.sse_url if revision == "2024-11-05" else replicas.url
    async with Client(url, revision=revision) as client:
        held = Held(client, "lost")
        await held.running.wait()
        begun = time.monotonic()
        replica_of(replicas, record, "lost").kill()
        with pytest.raises(OutcomeUnknown):
            await held.task
        assert time.monotonic() - begun < SOON
    assert len(effects(record, "lost")) == 1, "the call ran again"


@pytest.mark.parametrize("revision", ["2025-06-18"])
async def test_the_session_and_its_other_calls_go_on(revision: str, replicas: Replicas, record: Path) -> None:
    sent: list[bytes] = []

    def trace(direction: str, message: bytes) -> None:
        if direction == "sent":
            sent.append(message)

    async with Client(replicas.url, revision=revision, trace=trace) as client:
        held = {key: Held(client, key) for key in ("one", "two", "three")}
        for each in held.values():
            await each.running.wait()
        where = {key: replica_of(replicas, record, key) for key in held}
        assert len(set(where.values())) == 3
        where["one"].kill()
        for key in ("two", "three"):
            (record / f"release-{key}").touch()
            assert (await held[key].task).text == key
        with pytest.raises(OutcomeUnknown):
            await held["one"].task
        assert [(await client.call("once", key=f"after {number}")).text for number in range(3)]
    assert sum(b'"initialize"' in message for message in sent) == 1


@pytest.mark.parametrize("revision", ["2025-03-26"])
async def test_whoever_resumes_the_stream_gets_the_same_error(revision: str, replicas: Replicas, record: Path) -> None:
    async with Site(replicas.nginx.url) as site:
        session = await site.session(revision)
        call = await session.call("hold", token=1, key="lost")
        event = await first_message(call)
        assert event.message["params"]["progress"] == 1
        replica_of(replicas, record, "lost").kill()
        streams = await asyncio.gather(*(session.get(last=event.id) for _ in range(4)))
        errors = [message for stream in streams for message in await stream.messages()]
        again = await (await session.get(last=event.id)).messages()
    assert len(again) == 1
    assert again[0]["error"]["data"]["dovetail/outcomeUnknown"] is True
    assert errors and all(error == again[0] for error in errors), "a stream may be taken over by the next"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_subscriber_of_a_killed_replica_hears_of_later_changes(revision: str, replicas: Replicas) -> None:
    """Whichever replica has the stream: each is killed once."""
    async with Client(replicas.url, revision=revision) as client, Client(replicas.url) as other:
        watcher = Watcher(client)
        for replica in replicas.all:
            await watcher.hears(other)
            assert not watcher.task.done(), watcher.task
            replica.restart()
        heard = watcher.changes
        await change(other)
        await until(lambda: watcher.changes > heard)
        await watcher.stop()


async def test_a_question_of_a_killed_replica_ends_and_is_not_asked_again(replicas: Replicas, record: Path) -> None:
    """The client is asked by one replica, which is gone when the answer comes."""
    asked: list[str] = []

    async def answer(question: object) -> dict[str, int]:
        asked.append("asked")
        replica_of(replicas, record, "lost").kill()
        return {"value": 1}

    async with Client(replicas.url, revision="2025-11-25", on_elicit=answer) as client:
        with pytest.raises(OutcomeUnknown):
            await client.call("ask", key="lost")
    assert asked == ["asked"]
    assert [step for step, _ in effects(record, "lost")] == ["before"]


async def test_a_question_of_the_newest_revision_is_continued_by_another_replica(
    replicas: Replicas, record: Path
) -> None:
    """Finished steps do not run again."""
    killed: list[int] = []

    async def answer(question: object) -> dict[str, int]:
        _, process = effects(record, "kept")[-1]
        killed.append(process)
        next(replica for replica in replicas.all if replica.pid == process).restart()
        return {"value": 1}

    async with Client(replicas.url, revision="2026-07-28", on_elicit=answer) as client:
        assert (await client.call("ask", key="kept")).text == "kept 2"
    steps = effects(record, "kept")
    assert [step for step, _ in steps] == ["before", "between", "after"]
    assert len({process for _, process in steps}) > 1
