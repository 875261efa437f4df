"""Replicas behind nginx in plain round robin: which of them a request reaches, and what it meets if one is down."""

import pytest

from dovetail import Client
from tests.support.nginx import needs_nginx
from tests.support.redis_server import needs_redis
from tests.support.replicas import Replicas

pytestmark = [needs_nginx, needs_redis]


async def processes(url: str, requests: int) -> list[int]:
    """The processes that served some requests of the newest revision, one after the other."""
    async with Client(url, revision="2026-07-28") as client:
        return [(await client.call("process")).data for _ in range(requests)]


async def test_requests_take_turns_over_all_replicas(replicas: Replicas) -> None:
    *_, one, two, three, four, five, six = await processes(replicas.url, 8)
    assert {one, two, three} == {replica.pid for replica in replicas.all}
    assert (one, two, three) == (four, five, six)


async def test_no_request_reaches_a_dead_replica(replicas: Replicas) -> None:
    gone = replicas[0].kill()
    served = await processes(replicas.url, 9)
    assert gone not in served
    assert set(served) == {replicas[1].pid, replicas[2].pid}


async def test_a_replica_that_was_started_again_gets_requests_again(replicas: Replicas) -> None:
    replicas[0].restart()
    served: list[int] = []
    while replicas[0].pid not in served:
        served = await processes(replicas.url, 3)


@pytest.mark.parametrize("way", ["kill", "terminate"])
async def test_a_replica_can_be_ended_and_started_again(replicas: Replicas, way: str) -> None:
    getattr(replicas[1], way)()
    replicas[1].start()
    assert "Traceback" not in replicas.stderr
    assert len(await processes(replicas.url, 3)) == 3


async def test_requests_go_on_while_all_replicas_are_restarted_one_after_the_other(replicas: Replicas) -> None:
    async with Client(replicas.url, revision="2026-07-28") as client:
        for replica in replicas.all:
            replica.terminate()
            assert [(await client.call("process")).data for _ in range(6)]
            replica.start()
