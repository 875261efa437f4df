"""Faults for replicas and their store, each of which writes down what it did."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

from tests.replicas.chaos_clients import Recorder
from tests.replicas.history import Killed, Started, StoreOutage
from tests.support.cuttable_relay import Relay
from tests.support.http_process import HttpProcess
from tests.support.redis_server import RedisServer, redis_server
from tests.support.replicas import PORT_VARIABLE, Replica, Replicas

GATEWAY_PORT = "x-gateway-port"
"""The header in which a gateway tells the server behind it which gateway has sent a call."""
KILL_SECONDS = 3.0
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
"""Options of Redis with which it loses nothing that it acknowledged."""
OUTAGE_SECONDS = 2.0
SLOW_SECONDS = 0.5
"""A reply that takes longer, of which a replica may have waited for another one since before."""
RECOVERY_SECONDS = 2.0
"""Time after an outage within which every replica has reached the store again: it tries at least once a second."""


class Surroundings:
    """What clients of a run talk to: replicas, and the store behind them."""

    def __init__(self, replicas: Replicas, redis: RedisServer | None, relay: Relay | None) -> None:
        self.replicas = replicas
        self.redis = redis
        self.relay = relay
        self.cut_off: Replica | None = None
        """The replica that cannot reach the store now."""

    def repair(self) -> None:
        """Have every replica run."""
        for replica in self.replicas.all:
            if replica.process is None:
                replica.start()


@contextlib.asynccontextmanager
async def surroundings(
    folder: Path, server: Path, store: str, number: int, *, cuttable: bool, behind: str | None = None
) -> AsyncIterator[Surroundings]:
    """Replicas with a store; the first reaches it through a relay if that is to be cut.

    With `behind`, the replicas are gateways, and the server behind them speaks that revision and is left in peace.
    """
    async with contextlib.AsyncExitStack() as stack:
        redis, relay = None, None
        urls = [str(folder / "store.sqlite")] * number
        if store == "redis":
            redis = stack.enter_context(redis_server(folder / "redis", *DURABLE))
            urls = [redis.url] * number
            if cuttable:
                relay = await stack.enter_async_context(Relay(redis.port))
                urls[0] = relay.url.replace("http:", "redis:")
        environment = {"RECORD": str(folder / "record")}
        if behind is None:
            replicas = Replicas(server, folder / "nginx", urls, environment=environment, log_requests=True)
        else:
            process = HttpProcess(server, environment={**environment, "REVISION": behind})
            stack.callback(process.kill)
            headers = {GATEWAY_PORT: f"${{env:{PORT_VARIABLE}}}"}
            entry = {"url": f"http://127.0.0.1:{process.port}/mcp", "headers": headers}
            config = folder / "mcp.json"
            config.write_text(json.dumps({"mcpServers": {"recording": entry}}))
            place = "/mcp/server/recording"
            replicas = Replicas(
                config, folder / "nginx", urls, "--trust", log_requests=True, command="gateway", path=place
            )
        await asyncio.to_thread(replicas.__enter__)
        stack.callback(replicas.close)
        yield Surroundings(replicas, redis, relay)


Fault: TypeAlias = Callable[[Surroundings, Recorder, float, random.Random], Coroutine[Any, Any, None]]
"""Causes faults until a time of `time.monotonic`."""


async def nothing(around: Surroundings, recorder: Recorder, ends: float, chance: random.Random) -> None:
    """Let all go well."""
    await asyncio.sleep(ends - time.monotonic())


async def kill_replicas(around: Surroundings, recorder: Recorder, ends: float, chance: random.Random) -> None:
    """Kill one replica every three seconds, and start it again; not the one that is cut off from the store."""
    due = time.monotonic()
    while (due := due + KILL_SECONDS) < ends:
        await asyncio.sleep(due - time.monotonic())
        replica = chance.choice([each for each in around.replicas.all if each is not around.cut_off])
        begun = recorder.now()
        process = await asyncio.to_thread(replica.kill)
        recorder.add(Killed(begun, process, recorder.now()))
        begun = recorder.now()
        await asyncio.to_thread(replica.start)
        recorder.add(Started(begun, replica.pid, replica.port))


async def restart_redis(around: Surroundings, recorder: Recorder, ends: float, chance: random.Random) -> None:
    """Stop Redis in the middle of the time, and start it again after a while."""
    assert around.redis is not None
    await asyncio.sleep((ends - time.monotonic()) / 2)
    begun = recorder.now()
    await asyncio.to_thread(around.redis.stop)
    await asyncio.sleep(OUTAGE_SECONDS)
    await asyncio.to_thread(around.redis.start)
    recorder.add(StoreOutage(begun, recorder.now() + RECOVERY_SECONDS))


async def find_slow_times(around: Surroundings, recorder: Recorder) -> None:
    """Write to Redis all the time, and write down when it does not answer in time; replicas give up after 0.9 s.

    If this process has to wait for a processor, so has the relay in it, through which one replica reaches Redis.
    """
    while around.redis is not None:
        begun = recorder.now()
        with contextlib.suppress(OSError):
            await asyncio.to_thread(around.redis.ask, "SET", "chaos", "x")
        await asyncio.sleep(0.1)
        if recorder.now() - begun > SLOW_SECONDS:
            recorder.add(StoreOutage(begun - SLOW_SECONDS, recorder.now() + RECOVERY_SECONDS, slow=True))


async def cut_network(around: Surroundings, recorder: Recorder, ends: float, chance: random.Random) -> None:
    """Cut one replica off from Redis, for longer than its heartbeat lasts, and connect it again."""
    assert around.relay is not None
    await asyncio.sleep((ends - time.monotonic()) / 2)
    around.cut_off = replica = around.replicas[0]
    while replica.process is None:  # it has just been killed
        await asyncio.sleep(0.05)
    begun, process = recorder.now(), replica.pid
    around.relay.block()
    await asyncio.sleep(min(8.0, max(OUTAGE_SECONDS, (ends - time.monotonic()) / 2)))
    around.relay.unblock()
    around.cut_off = None
    recorder.add(StoreOutage(begun, recorder.now() + RECOVERY_SECONDS, process))
    await asyncio.sleep(max(0.0, ends - time.monotonic()))


SCENARIOS: dict[str, list[Fault]] = {
    "none": [nothing],
    "killed": [kill_replicas],
    "redis": [kill_replicas, restart_redis],
    "cut": [kill_replicas, cut_network],
}
