"""A replica that leaves (SIGTERM), and one that stops for longer than its heartbeat lasts (SIGSTOP)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client
from tests.replicas.test_killed import Held, first_message, replica_of
from tests.support.nginx import needs_nginx
from tests.support.raw_http import Session, Site, text_of
from tests.support.redis_server import needs_redis
from tests.support.replicas import Replicas, Watcher, change
from tests.support.waiting import until

pytestmark = [needs_nginx, needs_redis]

HEARTBEAT_SECONDS = 6.0


@pytest.mark.parametrize("revision", ["2025-03-26", "2026-07-28"])
async def test_a_call_finishes_at_a_replica_that_leaves(revision: str, replicas: Replicas, record: Path) -> None:
    async with Client(replicas.url, revision=revision) as client:
        held = Held(client, "held")
        await held.running.wait()
        leaving = asyncio.create_task(asyncio.to_thread(replica_of(replicas, record, "held").terminate))
        assert [(await client.call("once", key=f"meanwhile {number}")).text for number in range(3)]
        (record / "release-held").touch()
        assert (await held.task).text == "held"
        assert await leaving == 0


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_subscriber_goes_on_at_once_when_its_replica_leaves(revision: str, replicas: Replicas) -> None:
    async with Client(replicas.url, revision=revision) as client, Client(replicas.url) as other:
        watcher = Watcher(client)
        for replica in replicas.all:
            await watcher.hears(other)
            begun = time.monotonic()
            assert await asyncio.to_thread(replica.terminate) == 0
            assert time.monotonic() - begun < 5, "it waited for a stream that never ends by itself"
            heard = watcher.changes
            await change(other)
            await until(lambda heard=heard: watcher.changes > heard or watcher.task.done())
            assert not watcher.task.done(), watcher.task
            await asyncio.to_thread(replica.start)
        await watcher.stop()


async def test_no_event_is_lost_between_a_replica_that_leaves_and_the_next(replicas: Replicas, record: Path) -> None:
    """The GET stream ends properly, and what was told meanwhile comes on the next one."""
    async with Site(replicas.nginx.url) as site, Client(replicas.url) as other:
        session = await site.session("2025-11-25")
        await (await session.ask("resources/subscribe", uri="counter://value")).json()
        stream = await session.get()
        assert stream.status == 200
        await change(other)
        event = await first_message(stream)
        ends = asyncio.create_task(stream.all())
        for replica in replicas.all:
            await asyncio.to_thread(replica.terminate)
            await asyncio.to_thread(replica.start)
        assert all(not each.data for each in await ends)
        await change(other)
        again = await session.get(last=event.id)
        message = (await first_message(again)).message
        assert message["method"] == "notifications/resources/updated"


@pytest.mark.slow
async def test_a_replica_that_was_stopped_for_long_does_no_harm(replicas: Replicas, record: Path) -> None:
    """Others have ended its call; what it says about that call afterwards is not heard."""
    async with Site(replicas.nginx.url) as site:
        session = await site.session("2025-11-25")
        call = await session.call("hold", token=1, key="held")
        event = await first_message(call)
        stopped = replica_of(replicas, record, "held")
        stopped.pause()
        others = [replica for replica in replicas.all if replica is not stopped]
        async with Site(others[0].url) as elsewhere:
            there = type(session)(elsewhere, session.revision, session.id)
            async with asyncio.timeout(HEARTBEAT_SECONDS + 10):
                (ended,) = await (await there.get(last=event.id)).messages()
            assert ended["error"]["data"]["dovetail/outcomeUnknown"] is True
            (record / "release-held").touch()
            stopped.resume()
            await until(lambda: _is_served_by(stopped.url))
            for url in (stopped.url, others[1].url):
                async with Site(url) as any_replica:
                    here = type(session)(any_replica, session.revision, session.id)
                    assert await resumed(here, event.id) == [ended], "the same end, everywhere"
                    assert text_of(await (await here.call("once", key="after")).answer()) == "after"


async def resumed(session: Session, last: str | None) -> list[dict[str, Any]]:
    """What comes after an event; a replica that does not know yet that its stream was ended sends nothing at first."""
    while not (messages := await (await session.get(last=last)).messages()):
        pass
    return messages


def _is_served_by(url: str) -> bool:
    import urllib.request

    with urllib.request.urlopen(f"{url}/health", timeout=20) as response:
        return response.status == 200
