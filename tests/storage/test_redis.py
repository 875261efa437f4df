"""The store in Redis: what it costs, and what it does when Redis is away, full, slow, moved or closed to it."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.storage.contract import LogEntries, StoreError, StoreUnavailable, StoreUnusable
from dovetail.storage.redis import log_followers
from dovetail.storage.redis.scripts import ALL
from dovetail.storage.redis.store import RedisStore
from tests.support.cuttable_relay import Relay
from tests.support.redis_server import RedisServer, ask, free_port, needs_redis, redis_server, shared_redis
from tests.support.tidy import nothing_left_on_the_loop
from tests.support.waiting import until
from tests.transports.http.test_aiohttp_client import certificate

pytestmark = needs_redis

COMMANDS_OF_6_2 = {
    *(
        "get",
        "set",
        "del",
        "exists",
        "pexpire",
        "pexpireat",
        "persist",
        "eval",
        "evalsha",
        "time",
        "ping",
        "select",
        "auth",
    ),
    *("lindex", "llen", "lrange", "lset", "ltrim", "rpush"),
    *("zadd", "zcount", "zrange", "zrangebyscore", "zrem", "zremrangebyscore", "zscore"),
    *("publish", "subscribe", "unsubscribe"),
}
FROM_REDIS_PY = {"client|setinfo"}
"""Sent by redis-py with each connection; a server that does not know it says so, and is used all the same."""


@pytest.fixture
def prefix() -> str:
    return os.urandom(6).hex() + ":"


@pytest.fixture
def server() -> RedisServer:
    return shared_redis()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that a test may stop; it keeps its data."""
    with redis_server(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


def info(server: RedisServer, section: str, field: str) -> int:
    lines = server.ask("INFO", section).decode().splitlines()
    return int(next(line for line in lines if line.startswith(field + ":")).partition(":")[2])


async def open_session(store: RedisStore, n: int, record: bytes = b"x" * 250) -> None:
    id = f"{n:022d}"
    await asyncio.gather(
        store.put(f"session:{id}", record, 3600),
        store.join("sessions", id, 3600, 1_000_000),
        store.join(f"sessions:{n // 10:06d}", id, 3600, 100),
    )


class Received:
    """Entries that a follower got, one by one."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, bytes]] = []

    def __call__(self, entries: LogEntries) -> None:
        self.entries += entries


async def test_operations_issued_together_take_one_round_trip(server: RedisServer, prefix: str) -> None:
    store = RedisStore(server.url, prefix=prefix)
    await open_session(store, 1)
    start = info(server, "stats", "total_reads_processed")
    # The question is a read too, and the end of its connection.
    question = info(server, "stats", "total_reads_processed") - start
    await open_session(store, 2)
    assert info(server, "stats", "total_reads_processed") - start - 2 * question == 1
    await store.close()


@pytest.mark.slow
async def test_an_idle_session_takes_600_bytes_of_redis(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis") as server:
        store = RedisStore(server.url)
        await store.join("warm-up", "", 1, 1)
        before = info(server, "memory", "used_memory")
        for start in range(0, 10_000, 500):
            await asyncio.gather(*(open_session(store, n) for n in range(start, start + 500)))
        await store.close()
        # Redis frees the buffers of a connection some time after it was closed.
        async with asyncio.timeout(10):
            await until(lambda: info(server, "memory", "used_memory") - before <= 600 * 10_000)


async def test_only_commands_of_redis_6_2_are_used(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis", password="secret") as server:
        server.ask("CONFIG", "RESETSTAT")
        store = RedisStore(f"redis://:secret@127.0.0.1:{server.port}/1")
        await use_everything(store)
        await store.close()
        stats = server.ask("INFO", "commandstats").decode()
    used = {
        line.partition(":")[0].removeprefix("cmdstat_") for line in stats.splitlines() if line.startswith("cmdstat_")
    }
    # Redis 6.2 counts subcommands under the name of their command.
    assert used - FROM_REDIS_PY - {"config|resetstat", "config", "client", "info"} == COMMANDS_OF_6_2


async def use_everything(store: RedisStore) -> None:
    await asyncio.gather(store.put("a", b"1", 60), store.add("a", b"2"), store.replace("a", b"3"), store.get("a"))
    await asyncio.gather(store.touch("a", 60), store.touch("a", None), store.delete("a"))
    follower = await store.follow("log", 0, lambda _: None)
    await store.append("log", [b"1", b"2", b"3"], 60, 2)
    await store.append("log", [b"4"], None)
    await asyncio.gather(store.claim("log", "w", 60), store.read("log", 0, 9), store.last("log"))
    follower.close()
    await store.drop("log")
    await store.append("log", [b"1"])
    await asyncio.gather(store.join("g", "m", 60, 9), store.oldest("g"), store.leave("g", "m"), store.take("b", 1, 1))


def test_every_script_names_only_its_one_key() -> None:
    for script in ALL:
        assert b"KEYS[1]" in script.source
        assert b"KEYS[2]" not in script.source


async def test_scripts_that_redis_has_forgotten_are_sent_again(server: RedisServer, prefix: str) -> None:
    store = RedisStore(server.url, prefix=prefix)
    assert await store.append("log", [b"1"]) == 1
    server.ask("SCRIPT", "FLUSH")
    outcomes = await asyncio.gather(*(store.append("log", [b"%d" % n]) for n in range(2, 30)))
    assert outcomes == list(range(2, 30))
    assert [value for _, value in await store.read("log", 0, 99)] == [b"%d" % n for n in range(1, 30)]
    await store.close()


async def test_a_closed_store_leaves_nothing_behind(server: RedisServer, prefix: str) -> None:
    async with nothing_left_on_the_loop():
        store = RedisStore(server.url, prefix=prefix)
        await store.follow("log", 0, lambda _: None)
        await store.append("log", [b"1"])
        await store.close()
        await store.close()


async def test_a_large_batch_is_one_append_and_reaches_followers(server: RedisServer, prefix: str) -> None:
    store = RedisStore(server.url, prefix=prefix)
    received = Received()
    await store.follow("log", 0, received)
    many = [b"%d" % n for n in range(9_000)]
    assert await store.append("log", many) == 9_000
    assert await store.append("log", [b"x" * 1_000_000]) == 9_001
    await until(lambda: len(received.entries) == 9_001)
    assert [position for position, _ in received.entries] == list(range(1, 9_002))
    assert [value for _, value in received.entries[:-1]] == many
    await store.close()


async def fails_within_a_second(work: Callable[[], Any], expected: type[StoreError]) -> StoreError:
    started = time.monotonic()
    with pytest.raises(expected) as caught:
        await work()
    assert time.monotonic() - started < 1.5
    return caught.value


async def test_a_server_that_refuses_connections_is_unavailable_at_once() -> None:
    store = RedisStore(f"redis://127.0.0.1:{free_port()}")
    problem = await fails_within_a_second(lambda: store.get("a"), StoreUnavailable)
    assert "cannot be reached" in str(problem)
    started = time.monotonic()
    for _ in range(1000):
        with pytest.raises(StoreUnavailable):
            await store.get("a")
    assert time.monotonic() - started < 1.0
    with pytest.raises(StoreUnavailable):
        await store.follow("log", 0, lambda _: None)
    await store.close()


async def test_a_server_that_says_nothing_is_unavailable_and_found_again(own_server: RedisServer) -> None:
    store = RedisStore(own_server.url)
    await store.put("a", b"1")
    with own_server.paused():
        problem = await fails_within_a_second(lambda: store.get("a"), StoreUnavailable)
        assert "did not answer" in str(problem)
        started = time.monotonic()
        for _ in range(100):
            with pytest.raises(StoreUnavailable):
                await store.get("a")
        assert time.monotonic() - started < 0.5
    assert await eventually(lambda: store.get("a")) == b"1"
    await store.close()


async def eventually(work: Callable[[], Any]) -> Any:
    """The result of an operation, once the store is available."""
    while True:
        try:
            return await work()
        except StoreUnavailable:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("end", [RedisServer.stop, RedisServer.kill], ids=["stopped", "killed"])
async def test_a_follower_misses_nothing_when_the_server_restarts(
    own_server: RedisServer, end: Callable[[RedisServer], None]
) -> None:
    store = RedisStore(own_server.url)
    received = Received()
    await store.follow("log", 0, received)
    for n in range(1, 6):
        await store.append("log", [b"%d" % n])
    await until(lambda: len(received.entries) == 5)
    end(own_server)
    with pytest.raises(StoreUnavailable):
        await store.append("log", [b"lost"])
    await asyncio.to_thread(own_server.start)
    # Another process is quicker than our follower.
    other = RedisStore(own_server.url)
    for n in range(6, 11):
        assert await eventually(lambda n=n: other.append("log", [b"%d" % n])) == n
    await until(lambda: len(received.entries) >= 10)
    await asyncio.sleep(0.05)
    assert received.entries == [(n, b"%d" % n) for n in range(1, 11)]
    await store.close()
    await other.close()


async def test_a_broken_connection_is_replaced_and_nothing_is_sent_twice(server: RedisServer, prefix: str) -> None:
    store = RedisStore(server.url, prefix=prefix)
    received = Received()
    await store.follow("log", 0, received)
    appended = 0
    for n in range(200):
        if n % 60 == 30:
            server.ask("CLIENT", "KILL", "TYPE", "normal")
            server.ask("CLIENT", "KILL", "TYPE", "pubsub")
        try:
            await store.append("log", [b"%d" % n])
            appended += 1
        except StoreUnavailable:
            continue
    last = await eventually(lambda: store.last("log"))
    await until(lambda: len(received.entries) == last)
    values = [value for _, value in received.entries]
    assert [position for position, _ in received.entries] == list(range(1, last + 1))
    assert len(values) == len(set(values)) >= appended
    await store.close()


async def test_a_network_that_is_cut_without_notice_is_found_out(
    server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_followers, "_PING_SECONDS", 0.2)
    near = RedisStore(server.url, prefix=prefix)
    async with Relay(server.port) as relay:
        far = RedisStore(relay.url.replace("http:", "redis:"), prefix=prefix)
        received = Received()
        await far.follow("log", 0, received)
        await near.append("log", [b"1"])
        await until(lambda: received.entries == [(1, b"1")])
        relay.silence()
        await near.append("log", [b"2"])
        await fails_within_a_second(lambda: far.last("log"), StoreUnavailable)
        await until(lambda: received.entries == [(1, b"1"), (2, b"2")])
        assert await eventually(lambda: far.append("log", [b"3"])) == 3
        await until(lambda: received.entries == [(1, b"1"), (2, b"2"), (3, b"3")])
        await far.close()
    await near.close()


async def test_a_server_out_of_memory_refuses_writes_and_answers_reads(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis", "--maxmemory-policy", "noeviction") as server:
        store = RedisStore(server.url)
        await store.put("a", b"1")
        await store.append("log", [b"1"])
        server.ask("CONFIG", "SET", "maxmemory", "1")
        for write in (
            lambda: store.put("b", b"1"),
            lambda: store.append("log", [b"2"]),
            lambda: store.append("new", [b"1"]),
            lambda: store.claim("log", "w"),
            lambda: store.join("g", "m", 60, 1),
            lambda: store.take("b", 1, 1),
        ):
            problem = await fails_within_a_second(write, StoreUnavailable)
            assert "no memory left" in str(problem)
        assert await store.get("a") == b"1"
        assert await store.read("log", 0, 9) == [(1, b"1")]
        assert await store.last("log") == 1
        assert await store.oldest("g") is None
        server.ask("CONFIG", "SET", "maxmemory", "0")
        assert await store.append("log", [b"2"]) == 2
        await store.close()


async def test_wrong_credentials_tell_what_to_do_and_not_what_they_are(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis", password="right") as server:
        for url in (f"redis://:wr0ng-one@127.0.0.1:{server.port}", f"redis://127.0.0.1:{server.port}"):
            store = RedisStore(url)
            problem = await fails_within_a_second(lambda store=store: store.get("a"), StoreUnusable)
            assert "DOVETAIL_REDIS_PASSWORD" in str(problem)
            assert "wr0ng" not in str(problem) + repr(store)
            await store.close()


async def test_credentials_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_server(tmp_path / "redis", password="right") as server:
        monkeypatch.setenv("DOVETAIL_REDIS_PASSWORD", "right")
        store = RedisStore(server.url)
        assert await store.get("a") is None
        await store.close()


async def test_a_wrong_database_is_named(server: RedisServer) -> None:
    store = RedisStore(server.url + "/99")
    problem = await fails_within_a_second(lambda: store.get("a"), StoreUnusable)
    assert "no such database" in str(problem)
    await store.close()


async def test_a_user_without_permission_is_told_what_it_lacks(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis") as server:
        server.ask("ACL", "SETUSER", "weak", "on", ">weak", "~other:*", "+@all")
        store = RedisStore(f"redis://weak:weak@127.0.0.1:{server.port}")
        problem = await fails_within_a_second(lambda: store.get("a"), StoreUnusable)
        assert "does not allow" in str(problem)
        await store.close()


async def test_the_user_in_the_documentation_has_all_permissions(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "redis.md").read_text()
    rule = page.partition("ACL SETUSER ")[2].partition("```")[0].split()
    with redis_server(tmp_path / "redis") as server:
        assert server.ask("ACL", "SETUSER", *rule) == b"+OK\r\n"
        store = RedisStore(f"redis://dovetail:password@127.0.0.1:{server.port}")
        await use_everything(store)
        await store.close()


async def test_a_message_of_another_program_does_no_harm(server: RedisServer, prefix: str) -> None:
    store = RedisStore(server.url, prefix=prefix)
    received = Received()
    await store.follow("log", 0, received)
    for message in (b"", b"hello", b"1:2:3:", b"1:1:1:9\nx", b"9999999999999999:1:1:1\nx", b"\xff:\n"):
        server.ask("PUBLISH", f"{prefix}l:log", message)
    await store.append("log", [b"1"])
    await store.append("log", [b"2"])
    await until(lambda: received.entries[-2:] == [(1, b"1"), (2, b"2")])
    await store.close()


async def test_an_event_loop_that_was_busy_still_gets_its_replies(server: RedisServer, prefix: str) -> None:
    store = RedisStore(server.url, prefix=prefix, timeout=0.2)
    await store.put("a", b"1")
    reading = asyncio.create_task(store.get("a"))
    await asyncio.sleep(0.001)
    time.sleep(0.3)
    assert await reading == b"1"
    await store.close()


async def test_a_server_that_closes_every_connection_is_not_asked_again_at_once() -> None:
    connections = 0

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.write(b"+PONG\r\n" * 3)
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(close, "127.0.0.1", 0)
    store = RedisStore(f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            await store.get("a")
    await asyncio.sleep(0.3)
    assert connections < 10
    await store.close()
    listener.close()


async def test_a_read_only_replica_is_unavailable_until_it_is_a_master(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis") as server:
        server.ask("REPLICAOF", "127.0.0.1", str(free_port()))
        store = RedisStore(server.url)
        problem = await fails_within_a_second(lambda: store.put("a", b"1"), StoreUnavailable)
        assert "read-only replica" in str(problem)
        server.ask("REPLICAOF", "NO", "ONE")
        await eventually(lambda: store.put("a", b"1"))
        assert await store.get("a") == b"1"
        await store.close()


async def test_a_script_that_blocks_redis_makes_it_unavailable(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis", "--lua-time-limit", "50") as server:
        store = RedisStore(server.url)
        await store.put("a", b"1")
        busy = asyncio.create_task(asyncio.to_thread(_run_forever, server.port))
        await fails_within_a_second(lambda: until_unavailable(store), StoreUnavailable)
        server.ask("SCRIPT", "KILL")
        await busy
        assert await eventually(lambda: store.get("a")) == b"1"
        await store.close()


def _run_forever(port: int) -> None:
    ask(port, "EVAL", "while true do end", "0", timeout=30)


async def until_unavailable(store: RedisStore) -> None:
    while True:
        await store.get("a")
        await asyncio.sleep(0.001)


async def test_tls_checks_the_certificate(tmp_path: Path) -> None:
    pem = str(certificate(tmp_path, "redis"))
    options = ("--tls-cert-file", pem, "--tls-key-file", pem, "--tls-ca-cert-file", pem, "--tls-auth-clients", "no")
    with redis_server(tmp_path / "redis", *options, tls=True) as server:
        url = server.url.replace("redis:", "rediss:")
        async with nothing_left_on_the_loop():
            trusting = RedisStore(f"{url}?ssl_ca_certs={pem}")
            received = Received()
            await trusting.follow("log", 0, received)
            await trusting.append("log", [b"1"])
            await until(lambda: received.entries == [(1, b"1")])
            await trusting.close()
        for wrong, hint in ((url, "ssl_ca_certs"), (server.url, "cannot be reached")):
            store = RedisStore(wrong)
            problem = await fails_within_a_second(lambda store=store: store.get("a"), StoreUnavailable)
            assert hint in str(problem)
            await store.close()


def test_a_file_of_certificates_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"ssl_ca_certs.*typo\.pem"):
        RedisStore(f"rediss://localhost?ssl_ca_certs={tmp_path}/typo.pem")


async def test_tls_to_a_server_without_it_is_told(server: RedisServer) -> None:
    store = RedisStore(server.url.replace("redis:", "rediss:"))
    problem = await fails_within_a_second(lambda: store.get("a"), StoreUnavailable)
    assert "Check that it expects TLS" in str(problem)
    await store.close()


@pytest.mark.slow
async def test_a_pause_of_three_seconds_ends_well(own_server: RedisServer) -> None:
    store = RedisStore(own_server.url)
    received = Received()
    await store.follow("log", 0, received)
    await store.append("log", [b"1"])
    with own_server.paused():
        end = time.monotonic() + 3
        failed = 0
        while time.monotonic() < end:
            await fails_within_a_second(lambda: store.append("log", [b"lost"]), StoreUnavailable)
            failed += 1
            await asyncio.sleep(0.05)
        assert failed > 20
    last = await eventually(lambda: store.append("log", [b"after"]))
    await until(lambda: received.entries and received.entries[-1] == (last, b"after"))
    # The one that was written before the pause was noticed may have been carried out, and no other.
    assert last <= 3
    assert [position for position, _ in received.entries] == list(range(1, last + 1))
    await store.close()
