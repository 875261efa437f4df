"""What every store does, whatever it is built on.

Another kind of store is added to `CASES`. One with a clock of its own has a small `unit`, so that `advance` can wait.
"""

import asyncio
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from dovetail.storage.contract import LogEntries, Store, StoreClosed, StoreError, StoreUnavailable
from dovetail.storage.memory import MemoryStore
from dovetail.storage.redis.store import RedisStore
from dovetail.storage.sqlite import SqliteStore
from tests.support.redis_server import needs_redis, shared_cluster, shared_redis, shared_sentinels
from tests.support.waiting import settled, until


class Clock:
    """The time of a store, which moves only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class StoreCase(ABC):
    """One kind of store: a store, others with the same contents, and its time.

    All times of a test are multiples of `unit` seconds. A store with a clock of its own is checked well before or after
    the end of a time, never close to it.
    """

    unit = 1.0
    clock: Clock | None = None
    """The clock, if tests can move it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores: list[Store] = []
        self.store = self.another()

    def another(self) -> Store:
        """A second store with the same contents, as another process has it."""
        store = self.open()
        if store not in self.stores:
            self.stores.append(store)
        return store

    @abstractmethod
    def open(self) -> Store:
        """A store; each call returns a new one if the contents are outside the process."""

    async def advance(self, units: float) -> None:
        """Let the time pass."""
        if self.clock is None:
            await asyncio.sleep(units * self.unit)
        else:
            self.clock.now += units * self.unit

    def close(self) -> None:
        """Close all stores."""
        for store in self.stores:
            asyncio.run(store.close())


class MemoryCase(StoreCase):
    """The store in memory: `another` is the same one."""

    def __init__(self, folder: Path) -> None:
        clock = self.clock = Clock()
        self.only = MemoryStore(clock=clock)
        super().__init__(folder)

    def open(self) -> Store:
        return self.only


class SqliteCase(StoreCase):
    """The store in a file."""

    def __init__(self, folder: Path) -> None:
        self.clock = self.time = Clock()
        super().__init__(folder)

    def open(self) -> Store:
        return SqliteStore(self.folder / "store.db", clock=self.time)


class RedisCase(StoreCase):
    """The store in a Redis server, with a prefix for each test."""

    unit = 0.05

    def __init__(self, folder: Path) -> None:
        self.prefix = os.urandom(6).hex() + ":"
        super().__init__(folder)

    def open(self) -> Store:
        return RedisStore(shared_redis().url, prefix=self.prefix)


class RedisClusterCase(RedisCase):
    """The store in three nodes of a Redis cluster."""

    def open(self) -> Store:
        return RedisStore(shared_cluster().url, prefix=self.prefix)


class RedisSentinelCase(RedisCase):
    """The store in the master that a Sentinel names."""

    def open(self) -> Store:
        return RedisStore(shared_sentinels().url, prefix=self.prefix)


CASES: dict[str, Callable[[Path], StoreCase]] = {
    "memory": MemoryCase,
    "sqlite": SqliteCase,
    "redis": RedisCase,
    "redis-cluster": RedisClusterCase,
    "redis-sentinel": RedisSentinelCase,
}


@pytest.fixture(params=[pytest.param(name, marks=needs_redis if name.startswith("redis") else ()) for name in CASES])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreCase]:
    case = CASES[request.param](tmp_path)
    yield case
    case.close()


@pytest.fixture
def store(case: StoreCase) -> Store:
    return case.store


class Received:
    """What a follower was given: positions and values, one by one."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, bytes]] = []
        self.calls = 0

    def __call__(self, entries: LogEntries) -> None:
        assert entries
        self.calls += 1
        self.entries += entries

    @property
    def values(self) -> list[bytes]:
        return [value for _, value in self.entries]

    async def until_has(self, count: int) -> None:
        await until(lambda: len(self.entries) >= count)
        await settled()
        assert len(self.entries) == count


async def test_a_value_is_what_was_put_last(store: Store) -> None:
    assert await store.get("a") is None
    await store.put("a", b"1")
    await store.put("a", b"\x00\xff", 5)
    await store.put("empty", b"")
    assert await store.get("a") == b"\x00\xff"
    assert await store.get("empty") == b""


@pytest.mark.parametrize("key", ["", " ", "a\x00b", "ä€😀", "%", "_", "'; DROP TABLE entries; --", "{a}{b", "x" * 5000])
async def test_any_text_is_a_name(store: Store, key: str) -> None:
    await store.put(key, b"this")
    await store.put(key + "-", b"that")
    await store.append(key, [b"entry"])
    assert await store.join(key, key, 60, 1)
    assert await store.oldest(key) is not None
    assert await store.take(key, 1, 1) == 0
    assert await store.get(key) == b"this"
    assert await store.delete(key)
    assert await store.get(key + "-") == b"that"
    assert await store.read(key, 0, 9) == [(1, b"entry")]


async def existing(store: Store, *keys: str) -> list[str]:
    return [key for key in keys if await store.get(key) is not None]


async def test_a_value_is_gone_after_its_time_to_live(case: StoreCase, store: Store) -> None:
    await store.put("short", b"1", 2 * case.unit)
    await store.put("long", b"1", 10 * case.unit)
    await store.put("for ever", b"1")
    await case.advance(1)
    assert await existing(store, "short", "long", "for ever") == ["short", "long", "for ever"]
    await case.advance(2)
    assert await existing(store, "short", "long", "for ever") == ["long", "for ever"]
    await case.advance(8)
    assert await existing(case.another(), "short", "long", "for ever") == ["for ever"]


async def test_putting_again_starts_the_time_to_live_again(case: StoreCase, store: Store) -> None:
    for key, ttl in {"longer": 3, "shorter": 20, "limited": None, "unlimited": 3}.items():
        await store.put(key, b"1", ttl and ttl * case.unit)
    await store.put("longer", b"2", 20 * case.unit)
    await store.put("shorter", b"2", 3 * case.unit)
    await store.put("limited", b"2", 3 * case.unit)
    await store.put("unlimited", b"2")
    await case.advance(5)
    assert await existing(store, "longer", "shorter", "limited", "unlimited") == ["longer", "unlimited"]


async def test_touching_renews_only_a_key_that_exists(case: StoreCase, store: Store) -> None:
    await store.put("a", b"1", 4 * case.unit)
    for _ in range(3):
        await case.advance(2)
        assert await store.touch("a", 4 * case.unit)
    assert await store.touch("a", 1 * case.unit)
    await case.advance(2)
    assert not await store.touch("a", 10)
    assert not await store.touch("b", 10)
    assert await store.get("a") is None
    await store.put("c", b"1", 1 * case.unit)
    assert await store.touch("c", None)
    await case.advance(2)
    assert await store.get("c") == b"1"


async def test_adding_fails_while_the_key_exists(case: StoreCase, store: Store) -> None:
    assert await store.add("a", b"1", 2 * case.unit)
    assert not await store.add("a", b"2", 100)
    assert await store.get("a") == b"1"
    await case.advance(3)
    assert await store.add("a", b"3", 10), "the refused call must not have renewed it"
    assert await store.get("a") == b"3"
    assert await store.delete("a")
    assert await store.add("a", b"4")


async def test_replacing_what_was_expected_is_won_by_one(store: Store) -> None:
    assert not await store.replace("a", b"1", expected=b"")
    await store.put("a", b"")
    won = await asyncio.gather(*(store.replace("a", b"%d" % number, 60, expected=b"") for number in range(10)))
    assert sum(won) == 1
    assert await store.get("a") == b"%d" % won.index(True)
    assert not await store.replace("a", b"x", expected=b"y")


async def test_replacing_fails_unless_the_key_exists(case: StoreCase, store: Store) -> None:
    assert not await store.replace("a", b"1", 10)
    assert await store.get("a") is None
    await store.put("a", b"1", 2 * case.unit)
    assert await store.replace("a", b"2", 6 * case.unit)
    await case.advance(3)
    assert await store.get("a") == b"2", "the time to live is replaced too"
    await case.advance(5)
    assert not await store.replace("a", b"3", 10)
    assert await store.get("a") is None
    await store.put("b", b"1", 1 * case.unit)
    assert await store.replace("b", b"2")
    await case.advance(2)
    assert await store.get("b") == b"2"


async def test_one_of_fifty_concurrent_additions_succeeds(case: StoreCase) -> None:
    stores = [case.store, case.another()]
    won = await asyncio.gather(*(stores[n % 2].add("once", b"%d" % n, 60) for n in range(50)))
    assert won.count(True) == 1
    assert await case.store.get("once") == b"%d" % won.index(True)


async def test_one_of_fifty_concurrent_deletions_succeeds(case: StoreCase) -> None:
    stores = [case.store, case.another()]
    await case.store.put("once", b"", 60)
    assert (await asyncio.gather(*(stores[n % 2].delete("once") for n in range(50)))).count(True) == 1
    await case.store.put("expired", b"", 1 * case.unit)
    await case.advance(2)
    assert not await case.store.delete("expired")


async def test_positions_of_a_log_start_at_one(store: Store) -> None:
    assert await store.last("log") == 0
    assert await store.read("log", 0, 10) == []
    assert await store.append("log", [b"a"]) == 1
    assert await store.append("log", [b"b", b"", b"d"]) == 4
    assert await store.append("other", [b"x"]) == 1
    assert await store.last("log") == 4
    assert await store.read("log", 0, 10) == [(1, b"a"), (2, b"b"), (3, b""), (4, b"d")]


async def test_a_log_is_read_in_parts(store: Store) -> None:
    await store.append("log", [b"%d" % n for n in range(1, 11)])
    assert await store.read("log", 0, 3) == [(1, b"1"), (2, b"2"), (3, b"3")]
    assert await store.read("log", 3, 3) == [(4, b"4"), (5, b"5"), (6, b"6")]
    assert await store.read("log", 8, 9) == [(9, b"9"), (10, b"10")]
    assert await store.read("log", 10, 9) == []
    assert await store.read("log", 99, 9) == []
    assert await store.read("log", -5, 1) == [(1, b"1")]
    assert await store.read("log", 0, 0) == []


async def test_discarded_entries_leave_a_gap_and_positions_are_not_reused(store: Store) -> None:
    for n in range(1, 8):
        assert await store.append("log", [b"%d" % n], keep=3) == n
    assert await store.read("log", 0, 9) == [(5, b"5"), (6, b"6"), (7, b"7")]
    assert await store.read("log", 5, 9) == [(6, b"6"), (7, b"7")]
    assert await store.append("log", [b"%d" % n for n in range(8, 14)], keep=2) == 13
    assert await store.read("log", 0, 9) == [(12, b"12"), (13, b"13")]
    assert await store.append("log", [b"14"]) == 14, "without a bound all stay"
    assert await store.read("log", 0, 9) == [(12, b"12"), (13, b"13"), (14, b"14")]
    assert await store.append("log", [], keep=1) == 14
    assert await store.read("log", 0, 9) == [(14, b"14")]


async def test_a_log_expires_as_a_whole_and_begins_again(case: StoreCase, store: Store) -> None:
    await store.append("log", [b"a", b"b"], ttl=4 * case.unit)
    await case.advance(2)
    await store.append("log", [b"c"], ttl=4 * case.unit)
    await case.advance(3)
    assert await store.append("log", [], ttl=4 * case.unit) == 3, "no entries, but more time"
    await case.advance(2)
    assert await store.read("log", 0, 9) == [(1, b"a"), (2, b"b"), (3, b"c")]
    await case.advance(3)
    assert await store.read("log", 0, 9) == []
    assert await store.last("log") == 0
    assert await store.append("log", [], ttl=10) == 0
    assert await store.last("log") == 0, "a log does not begin without an entry"
    assert await store.append("log", [b"new"], ttl=10) == 1
    assert await store.read("log", 0, 9) == [(1, b"new")]


async def test_a_dropped_log_begins_again(case: StoreCase, store: Store) -> None:
    assert not await store.drop("log")
    await store.append("log", [b"a", b"b"])
    await store.append("log2", [b"x"], ttl=1 * case.unit)
    assert await store.drop("log")
    assert not await store.drop("log")
    assert await store.read("log", 0, 9) == []
    assert await store.append("log", [b"c"]) == 1
    assert await store.read("log", 0, 9) == [(1, b"c")]
    await case.advance(2)
    assert not await store.drop("log2")


async def test_concurrent_appends_lose_nothing_and_stay_together(case: StoreCase) -> None:
    stores = [case.store, case.another()]
    pairs = [[b"%d" % n, b"%d'" % n] for n in range(50)]
    ends = [end or 0 for end in await asyncio.gather(*(stores[n % 2].append("log", pairs[n]) for n in range(50)))]
    assert sorted(ends) == list(range(2, 101, 2))
    entries = [entry for _, entry in await case.store.read("log", 0, 1000)]
    for pair, end in zip(pairs, ends, strict=True):
        assert entries[end - 2 : end] == pair


async def test_a_closed_log_accepts_nothing_more(case: StoreCase, store: Store) -> None:
    await store.append("log", [b"a"], ttl=4 * case.unit)
    assert await store.append("log", [b"b"], ttl=4 * case.unit, close=True) == 2
    await case.advance(2)
    assert await store.append("log", [b"c"], ttl=60) is None
    assert await store.append("log", [b"c"], ttl=60, close=True) is None
    assert await store.append("log", [], ttl=60) is None
    assert await store.append("log", [b"c"], ttl=60, keep=1, writer="w") is None
    assert await store.claim("log", "w", ttl=60) == 2
    assert await case.another().read("log", 0, 9) == [(1, b"a"), (2, b"b")]
    assert await store.last("log") == 2
    await case.advance(3)
    assert await store.read("log", 0, 9) == [], "refused calls have not renewed it"
    assert await store.append("log", [b"new"]) == 1, "a log that begins again is not closed"


async def test_a_log_can_be_closed_with_its_first_entry_and_without_entries(store: Store) -> None:
    assert await store.append("first", [b"a"], close=True) == 1
    assert await store.append("first", [b"b"]) is None
    await store.append("empty", [b"a"])
    assert await store.append("empty", [], close=True) == 1
    assert await store.append("empty", [b"b"]) is None
    assert await store.append("none", [], close=True) == 0
    assert await store.append("none", [b"a"]) == 1, "a log that does not exist cannot be closed"
    assert await store.drop("first")
    assert await store.append("first", [b"a"]) == 1


async def test_one_of_twenty_concurrent_closers_wins(case: StoreCase) -> None:
    stores = [case.store, case.another()]
    await case.store.append("log", [b"call"])
    ends = await asyncio.gather(*(stores[n % 2].append("log", [b"%d" % n], close=True) for n in range(20)))
    won = [n for n in range(20) if ends[n] is not None]
    assert len(won) == 1
    assert await case.store.read("log", 0, 99) == [(1, b"call"), (2, b"%d" % won[0])]


async def test_a_writer_is_refused_after_another_has_claimed_the_log(case: StoreCase) -> None:
    paused, other = case.store, case.another()
    assert await paused.claim("log", "paused", 60) == 0
    assert await paused.append("log", [b"a"], 60, writer="paused") == 1
    assert await other.claim("log", "other", 60) == 1
    assert await paused.append("log", [b"b"], 60, writer="paused") is None
    assert await paused.append("log", [], 60, writer="paused") is None
    assert await paused.append("log", [b"b"], 60, writer="paused", close=True) is None
    assert await other.append("log", [b"c"], 60, writer="other") == 2
    assert await paused.append("log", [b"anybody"], 60) == 3, "without a name nobody is refused"
    assert await paused.claim("log", "paused", 60) == 3
    assert await other.append("log", [b"d"], 60, writer="other") is None
    assert await paused.read("log", 0, 9) == [(1, b"a"), (2, b"c"), (3, b"anybody")]


async def test_a_log_that_nobody_has_claimed_accepts_any_writer(store: Store) -> None:
    assert await store.append("log", [b"a"], writer="a") == 1
    assert await store.append("log", [b"b"], writer="b") == 2


async def test_a_claimed_log_begins_without_entries_and_expires(case: StoreCase, store: Store) -> None:
    assert await store.claim("log", "a", 4 * case.unit) == 0
    assert await store.last("log") == 0
    assert await store.read("log", 0, 9) == []
    assert await store.append("log", [], 4 * case.unit) == 0
    await case.advance(2)
    assert await store.append("log", [b"x"], writer="b") is None
    assert await store.claim("log", "a", 4 * case.unit) == 0
    await case.advance(3)
    assert await store.append("log", [b"x"], writer="b") is None, "a claim starts the time to live again"
    await case.advance(2)
    assert await store.append("log", [b"x"], writer="b") == 1, "the claim has expired with the log"
    assert await store.claim("dropped", "a") == 0
    assert await store.drop("dropped")
    assert not await store.drop("dropped")
    assert await store.append("dropped", [b"x"], writer="b") == 1


async def test_a_claim_outlives_discarded_entries(store: Store) -> None:
    await store.claim("log", "a")
    for n in range(1, 6):
        assert await store.append("log", [b"%d" % n], keep=2, writer="a") == n
    assert await store.claim("log", "b") == 5
    assert await store.append("log", [b"6"], keep=2, writer="a") is None
    assert await store.read("log", 0, 9) == [(4, b"4"), (5, b"5")]


async def test_a_follower_gets_what_exists_and_what_comes(case: StoreCase) -> None:
    one, two = case.store, case.another()
    received, later = Received(), Received()
    await one.append("log", [b"1", b"2"])
    await one.follow("log", 0, received)
    await one.append("log", [b"3"])
    await two.append("log", [b"4", b"5"])
    await one.append("log", [b"6"])
    await one.append("other", [b"x"])
    await received.until_has(6)
    assert received.entries == [(n, b"%d" % n) for n in range(1, 7)]
    await two.follow("log", 4, later)
    await later.until_has(2)
    assert later.entries == [(5, b"5"), (6, b"6")]


async def test_a_log_can_be_followed_before_it_exists(case: StoreCase) -> None:
    received, from_the_middle = Received(), Received()
    await case.store.follow("log", 0, received)
    await case.store.follow("log", 3, from_the_middle)
    await case.another().append("log", [b"a"])
    await received.until_has(1)
    await from_the_middle.until_has(1)
    assert received.entries == from_the_middle.entries == [(1, b"a")], "the log of that position is gone"


async def test_a_follower_gets_each_entry_once_in_order_whoever_appends(case: StoreCase) -> None:
    stores = [case.store, case.another()]
    followers = [Received(), Received(), Received()]
    for n, received in enumerate(followers):
        await stores[n % 2].follow("log", 0, received)

    async def appends(store: Store, name: bytes) -> None:
        for n in range(100):
            await store.append("log", [b"%s%d" % (name, n)])

    await asyncio.gather(appends(stores[0], b"a"), appends(stores[1], b"b"))
    for received in followers:
        await received.until_has(200)
        assert received.entries == await stores[0].read("log", 0, 1000)


async def test_a_log_that_begins_again_is_followed_from_its_beginning(case: StoreCase) -> None:
    one, two = case.store, case.another()
    received = Received()
    await two.append("log", [b"1", b"2"])
    await one.follow("log", 0, received)
    await received.until_has(2)
    await two.drop("log")
    await two.append("log", [b"a", b"b", b"c"])
    await received.until_has(5)
    assert received.entries[2:] == [(1, b"a"), (2, b"b"), (3, b"c")]
    await one.drop("log")
    await one.append("log", [b"x"], ttl=1 * case.unit)
    await received.until_has(6)
    await case.advance(2)
    await two.append("log", [b"y"])
    await received.until_has(7)
    assert received.entries[5:] == [(1, b"x"), (1, b"y")]


async def test_a_position_beyond_the_end_is_of_a_log_that_is_gone(case: StoreCase) -> None:
    received = Received()
    await case.store.append("log", [b"a", b"b"])
    await case.another().follow("log", 7, received)
    await received.until_has(2)
    await case.store.append("log", [b"c"])
    await received.until_has(3)
    assert received.entries == [(1, b"a"), (2, b"b"), (3, b"c")]


async def test_a_follower_sees_discarded_entries_as_a_gap(case: StoreCase) -> None:
    received = Received()
    await case.store.append("log", [b"%d" % n for n in range(1, 11)], keep=3)
    await case.another().follow("log", 2, received)
    await case.store.append("log", [b"11"], keep=3)
    await until(lambda: b"11" in received.values)
    assert [position for position, _ in received.entries] in ([8, 9, 10, 11], [9, 10, 11])


async def test_a_long_log_is_followed_completely(case: StoreCase) -> None:
    received = Received()
    await case.another().append("log", [b"%d" % n for n in range(3000)])
    await case.store.follow("log", 0, received)
    await received.until_has(3000)
    assert received.values == [b"%d" % n for n in range(3000)]


async def test_a_claim_a_refusal_and_an_append_without_entries_wake_nobody(case: StoreCase) -> None:
    received = Received()
    await case.store.follow("log", 0, received)
    await case.store.claim("log", "a")
    await case.store.append("log", [])
    await case.store.append("log", [b"refused"], writer="b")
    await case.store.append("log", [b"last"], close=True)
    await case.store.append("log", [b"refused"])
    await received.until_has(1)
    assert received.entries == [(1, b"last")] and received.calls == 1


async def test_a_follower_is_never_called_within_the_call_that_appends_or_follows(store: Store) -> None:
    seen: list[asyncio.Task[object] | None] = []
    await store.append("log", [b""])
    await store.follow("log", 0, lambda _: seen.append(asyncio.current_task()))
    await store.append("log", [b""])
    await until(lambda: seen)
    assert set(seen) == {None}


async def test_a_closed_subscription_receives_nothing_more(case: StoreCase) -> None:
    store = case.store
    closed, rest = Received(), Received()
    subscription = await store.follow("log", 0, closed)
    await store.follow("log", 0, rest)
    await store.append("log", [b"1"])
    await rest.until_has(1)
    appending = asyncio.ensure_future(store.append("log", [b"2"]))
    await asyncio.sleep(0)
    subscription.close()
    subscription.close()
    await appending
    await rest.until_has(2)
    assert closed.values == [b"1"]


async def test_a_follower_may_close_its_own_subscription(store: Store) -> None:
    seen: list[LogEntries] = []
    rest = Received()

    def once(entries: LogEntries) -> None:
        seen.append(entries)
        subscription.close()

    subscription = await store.follow("log", 0, once)
    await store.follow("log", 0, rest)
    for n in range(3):
        await store.append("log", [b"%d" % n])
        await rest.until_has(n + 1)
    assert seen == [[(1, b"0")]]


async def test_a_follower_that_fails_affects_no_other_entry(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    failing, rest = Received(), Received()

    def fail(entries: LogEntries) -> None:
        failing(entries)
        raise ValueError("broken follower")

    await store.follow("log", 0, fail)
    await store.follow("log", 0, rest)
    for n in range(2):
        await store.append("log", [b"%d" % n])
        await rest.until_has(n + 1)
        await failing.until_has(n + 1)
    assert failing.values == [b"0", b"1"]
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


def test_a_follower_whose_loop_has_ended_is_forgotten(store: Store) -> None:
    gone, received = Received(), Received()

    async def follow_and_leave() -> None:
        await store.follow("log", 0, gone)

    async def follow() -> None:
        await store.follow("log", 0, received)
        await store.append("log", [b"1"])
        await received.until_has(1)

    asyncio.run(follow_and_leave())
    asyncio.run(follow())
    assert received.values == [b"1"] and gone.values == []


async def test_a_group_has_a_limit(case: StoreCase) -> None:
    store, other = case.store, case.another()
    assert await store.oldest("group") is None
    assert not await store.join("group", "a", 60, 0)
    assert await store.join("group", "a", 60, 2)
    assert await other.join("group", "b", 60, 2)
    assert not await store.join("group", "c", 60, 2)
    assert await store.join("group", "a", 60, 2), "a member may renew its place"
    assert not await store.join("group", "a", 60, 1), "there is another one already"
    assert await store.join("group", "c", 60, 3)
    assert await other.leave("group", "b")
    assert not await store.leave("group", "b")
    assert not await store.leave("other group", "a")
    assert await store.join("group", "d", 60, 3)
    assert not await store.join("group", "b", 60, 3)
    assert await store.join("other group", "b", 60, 1), "groups are separate"


async def test_members_expire_one_by_one(case: StoreCase, store: Store) -> None:
    assert await store.join("group", "first", 10 * case.unit, 3)
    assert await store.join("group", "second", 3 * case.unit, 3)
    assert await store.join("group", "third", 20 * case.unit, 3)
    member, seconds = await store.oldest("group") or ("", 0)
    assert member == "second" and 0 < seconds <= 3 * case.unit
    assert await store.join("group", "second", 30 * case.unit, 3)
    member, seconds = await store.oldest("group") or ("", 0)
    assert member == "first" and 3 * case.unit < seconds <= 10 * case.unit
    assert not await store.join("group", "fourth", 20 * case.unit, 3)
    await case.advance(12)
    member, seconds = await case.another().oldest("group") or ("", 0)
    assert member == "third" and seconds <= 8 * case.unit
    assert not await store.leave("group", "first")
    assert await store.join("group", "fourth", 20 * case.unit, 3)
    assert not await store.join("group", "first", 20 * case.unit, 3)


async def test_the_members_of_a_group_are_listed_in_the_order_of_their_expiry(case: StoreCase, store: Store) -> None:
    assert await store.members("group", 10) == []
    for member, units in (("late", 20), ("early", 5), ("middle", 10)):
        assert await store.join("group", member, units * case.unit, 3)
    assert await case.another().members("group", 10) == ["early", "middle", "late"]
    assert await store.members("group", 2) == ["early", "middle"]
    await case.advance(7)
    assert await store.members("group", 10) == ["middle", "late"]
    assert await store.leave("group", "middle")
    assert await store.members("group", 10) == ["late"]


async def test_a_refused_member_does_not_renew_itself(case: StoreCase, store: Store) -> None:
    assert await store.join("group", "a", 2 * case.unit, 2)
    assert await store.join("group", "b", 60, 2)
    assert not await store.join("group", "a", 60, 1)
    await case.advance(3)
    assert (await store.oldest("group") or ("", 0))[0] == "b"
    assert await store.leave("group", "b")
    assert await store.oldest("group") is None


async def test_a_group_of_many_concurrent_members_is_never_too_large(case: StoreCase) -> None:
    stores = [case.store, case.another()]
    joined = await asyncio.gather(*(stores[n % 2].join("group", f"{n}", 60, 7) for n in range(30)))
    assert joined.count(True) == 7
    left = await asyncio.gather(*(stores[n % 2].leave("group", f"{n}") for n in range(30)))
    assert left == joined


async def test_a_bucket_is_full_at_first_and_refilled_at_its_rate(case: StoreCase, store: Store) -> None:
    rate = 1 / case.unit
    assert [await store.take("bucket", rate, 3) for _ in range(3)] == [0, 0, 0]
    wait = await case.another().take("bucket", rate, 3)
    assert 0 < wait <= case.unit
    assert 0 < await store.take("bucket", rate, 3) <= case.unit, "a refused call takes nothing"
    assert case.unit < await store.take("bucket", rate, 3, 2) <= 2 * case.unit
    await case.advance(1.5)
    assert await store.take("bucket", rate, 3) == 0
    assert await store.take("other", rate, 3, 3) == 0, "buckets are separate"
    await case.advance(60)
    assert await store.take("bucket", rate, 3, 2) == 0
    assert await store.take("bucket", rate, 3, 1) == 0
    assert 0 < await store.take("bucket", rate, 3) <= case.unit, "it never holds more than its size"


async def test_a_caller_that_waits_as_long_as_it_was_told_succeeds(case: StoreCase, store: Store) -> None:
    rate = 3 / case.unit
    for _ in range(50 if case.clock else 3):
        if wait := await store.take("bucket", rate, 2):
            await case.advance(wait / case.unit)
            assert await store.take("bucket", rate, 2) == 0


async def test_more_tokens_than_a_bucket_holds_are_never_there(store: Store) -> None:
    assert await store.take("bucket", 1, 2, 3) == float("inf")
    assert await store.take("bucket", 1, 2, 2) == 0
    assert await store.take("bucket", 1, 2, 0) == 0


async def test_concaller_nameds_take_no_token_twice(case: StoreCase) -> None:
    stores = [case.store, case.another()]
    waits = await asyncio.gather(*(stores[n % 2].take("bucket", 0.001, 5) for n in range(20)))
    assert waits.count(0) == 5


async def test_the_parts_of_a_store_share_no_names(store: Store) -> None:
    await store.put("x", b"value")
    await store.append("x", [b"entry"])
    assert await store.join("x", "x", 60, 1)
    assert await store.take("x", 0.001, 1) == 0
    assert await store.delete("x")
    assert await store.last("x") == 1
    assert await store.drop("x")
    assert await store.leave("x", "x")
    assert await store.take("x", 0.001, 1) > 0


async def test_a_closed_store_says_so(case: StoreCase, store: Store) -> None:
    received = Received()
    await store.put("a", b"1")
    await store.follow("log", 0, received)
    await asyncio.gather(store.close(), store.close())
    await store.close()
    attempts: list[Callable[[], Awaitable[object]]] = [
        lambda: store.get("a"),
        lambda: store.put("a", b""),
        lambda: store.add("a", b""),
        lambda: store.replace("a", b""),
        lambda: store.touch("a", 1),
        lambda: store.delete("a"),
        lambda: store.append("a", [b""]),
        lambda: store.claim("a", "me"),
        lambda: store.read("a", 0, 1),
        lambda: store.last("a"),
        lambda: store.drop("a"),
        lambda: store.follow("log", 0, received),
        lambda: store.join("a", "me", 1, 1),
        lambda: store.leave("a", "me"),
        lambda: store.oldest("a"),
        lambda: store.members("a", 1),
        lambda: store.take("a", 1, 1),
    ]
    for attempt in attempts:
        with pytest.raises(StoreClosed, match="closed"):
            await attempt()
    assert issubclass(StoreClosed, StoreError) and issubclass(StoreUnavailable, StoreError)
    if store.shared:
        await case.another().append("log", [b"1"])
    assert received.entries == []


async def test_operations_running_at_close_finish_or_are_refused(store: Store) -> None:
    puts = [asyncio.ensure_future(store.put(f"{n}", b"")) for n in range(100)]
    await asyncio.sleep(0)
    await store.close()
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert all(outcome is None or isinstance(outcome, StoreClosed) for outcome in outcomes)


def test_several_event_loops_may_use_a_store_in_turn(store: Store) -> None:
    asyncio.run(store.put("a", b"1", 60))
    assert asyncio.run(store.get("a")) == b"1"
    assert asyncio.run(store.touch("a", 60))


async def test_any_sequence_of_operations_agrees_with_a_plain_dictionary(case: StoreCase, store: Store) -> None:
    if (clock := case.clock) is None:
        pytest.skip("needs a clock that stands still")
    dice = random.Random(4)
    model: dict[str, tuple[bytes, float]] = {}
    for step in range(2000):
        key = f"k{dice.randrange(40)}"
        ttl = dice.choice([1.0, 5.0, 30.0])
        alive = key in model and model[key][1] > clock.now
        match dice.randrange(7):
            case 0:
                await store.put(key, b"%d" % step, ttl)
                model[key] = (b"%d" % step, clock.now + ttl)
            case 1:
                assert await store.add(key, b"%d" % step, ttl) is not alive
                if not alive:
                    model[key] = (b"%d" % step, clock.now + ttl)
            case 2:
                assert await store.touch(key, ttl) is alive
                if alive:
                    model[key] = (model[key][0], clock.now + ttl)
            case 3:
                assert await store.delete(key) is alive
                model.pop(key, None)
            case 4:
                assert await store.replace(key, b"%d" % step, ttl) is alive
                if alive:
                    model[key] = (b"%d" % step, clock.now + ttl)
            case 5:
                assert await store.get(key) == (model[key][0] if alive else None)
            case _:
                clock.now += dice.random()
