"""Replicas behind HAProxy in round robin, with the configuration in examples/deploy."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dovetail import Client, OutcomeUnknown
from tests.replicas.test_killed import Held, replica_of
from tests.support.haproxy import HAProxy, needs_haproxy
from tests.support.nginx import needs_nginx
from tests.support.redis_server import needs_redis, redis_server
from tests.support.replicas import Replicas, Watcher

pytestmark = [pytest.mark.slow, needs_haproxy, needs_nginx, needs_redis]


@pytest.fixture
def replicas(start: Callable[..., Replicas], tmp_path: Path) -> Iterator[Replicas]:
    """Three replicas that accept the host name which the health checks send."""
    with redis_server(tmp_path / "redis") as redis:
        yield start(redis.url, "--allow-host", "shop.example.com")


@pytest.fixture
def url(replicas: Replicas, tmp_path: Path) -> Iterator[str]:
    with HAProxy(tmp_path, [replica.port for replica in replicas.all]) as proxy:
        yield f"{proxy.url}/mcp"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_client_is_served_by_all_replicas(revision: str, replicas: Replicas, url: str) -> None:
    async with Client(url, revision=revision, on_elicit=lambda _: {"value": 1}) as client:
        served = {(await client.call("process")).text for _ in range(6)}
        assert served == {str(replica.pid) for replica in replicas.all}
        for number in range(6):
            assert (await client.call("ask", key=f"question {number}")).text == f"question {number} 2"


async def test_requests_go_on_while_all_replicas_are_restarted_one_after_the_other(
    replicas: Replicas, url: str
) -> None:
    async with Client(url, revision="2025-11-25") as client:
        for replica in replicas.all:
            replica.terminate()
            assert [(await client.call("once", key=f"{replica.name} {number}")).text for number in range(6)]
            replica.start()


async def test_a_subscriber_goes_on_when_its_replica_is_killed(replicas: Replicas, url: str) -> None:
    async with Client(url, revision="2025-11-25") as client, Client(url) as other:
        watcher = Watcher(client)
        for replica in replicas.all:
            await watcher.hears(other)
            replica.restart()
        await watcher.hears(other)
        await watcher.stop()


async def test_a_call_of_a_killed_replica_ends_with_an_error(replicas: Replicas, record: Path, url: str) -> None:
    async with Client(url, revision="2025-11-25") as client:
        held = Held(client, "held")
        await held.running.wait()
        replica_of(replicas, record, "held").kill()
        with pytest.raises(OutcomeUnknown):
            await held.task
        assert (await client.call("once", key="after")).text == "after"
