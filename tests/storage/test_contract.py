"""What every store does, whatever it is built on."""

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dovetail.storage.contract import Store, StoreClosed, StoreError
from dovetail.storage.memory import MemoryStore
from dovetail.storage.sqlite import SqliteStore
from tests.support.waiting import until


class Clock:
    """The time of a store, which moves only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


STORES: dict[str, Callable[[Path, Clock], Store]] = {
    "memory": lambda _, clock: MemoryStore(clock=clock),
    "sqlite": lambda folder, clock: SqliteStore(folder / "store.db", clock=clock),
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Store]:
    store = STORES[request.param](tmp_path, clock)
    yield store
    asyncio.run(store.close())


async def test_a_value_is_what_was_put_last(store: Store) -> None:
    assert await store.get("a") is None
    await store.put("a", b"1")
    await store.put("a", b"\x00\xff", 5)
    await store.put("empty", b"")
    assert await store.get("a") == b"\x00\xff"
    assert await store.get("empty") == b""


@pytest.mark.parametrize("key", ["", " ", "a\x00b", "ä€😀", "%", "_", "'; DROP TABLE entries; --", "x" * 5000])
async def test_any_text_is_a_key(store: Store, key: str) -> None:
    await store.put(key, b"this")
    await store.put(key + "-", b"that")
    assert await store.get(key) == b"this"
    assert await store.delete(key)
    assert await store.get(key + "-") == b"that"


async def test_a_value_lives_as_long_as_it_was_told(store: Store, clock: Clock) -> None:
    await store.put("short", b"1", 10)
    await store.put("fraction", b"1", 0.25)
    await store.put("for ever", b"1")
    clock.now += 0.2
    assert await store.get("fraction") == b"1"
    clock.now += 0.1
    assert await store.get("fraction") is None
    clock.now += 9.6
    assert await store.get("short") == b"1"
    clock.now += 0.2
    assert await store.get("short") is None
    clock.now += 1e9
    assert await store.get("for ever") == b"1"


async def test_to_put_again_sets_the_time_anew(store: Store, clock: Clock) -> None:
    await store.put("longer", b"1", 10)
    await store.put("shorter", b"1", 10)
    await store.put("limited", b"1")
    await store.put("unlimited", b"1", 10)
    await store.put("longer", b"2", 20)
    await store.put("shorter", b"2", 5)
    await store.put("limited", b"2", 5)
    await store.put("unlimited", b"2")
    clock.now += 6
    assert sorted(await store.keys("", 9)) == ["longer", "unlimited"]
    clock.now += 10
    assert sorted(await store.keys("", 9)) == ["longer", "unlimited"]
    clock.now += 5
    assert sorted(await store.keys("", 9)) == ["unlimited"]


async def test_touching_renews_only_what_lives(store: Store, clock: Clock) -> None:
    await store.put("a", b"1", 10)
    for _ in range(5):
        clock.now += 9
        assert await store.touch("a", 10)
    assert await store.touch("a", 2)
    clock.now += 3
    assert not await store.touch("a", 10)
    assert not await store.touch("b", 10)
    assert await store.get("a") is None
    await store.put("c", b"1", 1)
    assert await store.touch("c", None)
    clock.now += 1e6
    assert await store.get("c") == b"1"


async def test_adding_fails_while_the_key_is_there(store: Store, clock: Clock) -> None:
    assert await store.add("a", b"1", 10)
    assert not await store.add("a", b"2", 100)
    assert await store.get("a") == b"1"
    clock.now += 11
    assert await store.add("a", b"3", 10), "the refused one must not have renewed it"
    assert await store.get("a") == b"3"
    assert await store.delete("a")
    assert await store.add("a", b"4")


async def test_one_of_fifty_that_add_at_once_wins(store: Store) -> None:
    won = await asyncio.gather(*(store.add("once", b"%d" % n, 60) for n in range(50)))
    assert won.count(True) == 1
    assert await store.get("once") == b"%d" % won.index(True)


async def test_one_of_fifty_that_delete_at_once_wins(store: Store, clock: Clock) -> None:
    await store.put("once", b"", 60)
    assert (await asyncio.gather(*(store.delete("once") for _ in range(50)))).count(True) == 1
    await store.put("ended", b"", 60)
    clock.now += 60
    assert not await store.delete("ended")


TRICKY = ["a", "ab", "a:1", "a:2", "a%b", "a%", "a_b", "axb", "A:1", "b", "a\U0010ffff", "ä", "\U0010ffff", "\ud7ff1"]


@pytest.mark.parametrize("prefix", ["", "a", "a:", "a%", "a_", "a\U0010ffff", "\U0010ffff", "A", "ä", "z", "\ud7ff"])
async def test_a_prefix_is_plain_text(store: Store, prefix: str) -> None:
    for key in TRICKY:
        await store.put(key, b"")
        await store.append(key, [b""])
    inside = sorted(key for key in TRICKY if key.startswith(prefix))
    assert await store.count(prefix) == len(inside)
    assert sorted(await store.keys(prefix, 100)) == inside
    await store.drop_prefix(prefix)
    left = sorted(set(TRICKY) - set(inside))
    assert sorted(await store.keys("", 100)) == left
    assert [key for key in TRICKY if await store.last(key)] == [key for key in TRICKY if key in left]


async def test_counting_leaves_out_what_has_ended(store: Store, clock: Clock) -> None:
    for n in range(300):
        await store.put(f"s:{n}", b"", 10 if n % 2 else 20)
    assert await store.count("s:") == 300
    clock.now += 15
    assert await store.count("s:") == 150
    keys = await store.keys("s:", 100)
    assert len(set(keys)) == 100 and all(int(key[2:]) % 2 == 0 for key in keys)
    assert await store.keys("s:", 0) == []
    clock.now += 15
    assert await store.count("") == 0


async def test_a_log_counts_from_one(store: Store) -> None:
    assert await store.last("log") == 0
    assert await store.read("log", 0, 10) == []
    assert await store.append("log", [b"a"]) == 1
    assert await store.append("log", [b"b", b"", b"d"]) == 4
    assert await store.append("other", [b"x"]) == 1
    assert await store.last("log") == 4
    assert await store.read("log", 0, 10) == [(1, b"a"), (2, b"b"), (3, b""), (4, b"d")]


async def test_a_log_is_read_in_pieces(store: Store) -> None:
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


async def test_a_log_ends_as_a_whole_and_begins_anew(store: Store, clock: Clock) -> None:
    await store.append("log", [b"a", b"b"], ttl=10)
    clock.now += 8
    await store.append("log", [b"c"], ttl=10)
    clock.now += 8
    assert await store.append("log", [], ttl=10) == 3, "no entries, but more time"
    clock.now += 8
    assert await store.read("log", 0, 9) == [(1, b"a"), (2, b"b"), (3, b"c")]
    clock.now += 2
    assert await store.read("log", 0, 9) == []
    assert await store.last("log") == 0
    assert await store.append("log", [], ttl=10) == 0
    assert await store.append("log", [b"new"], ttl=10) == 1
    assert await store.read("log", 0, 9) == [(1, b"new")]


async def test_a_dropped_log_begins_anew(store: Store, clock: Clock) -> None:
    assert not await store.drop("log")
    await store.append("log", [b"a", b"b"])
    await store.append("log2", [b"x"], ttl=1)
    assert await store.drop("log")
    assert not await store.drop("log")
    assert await store.read("log", 0, 9) == []
    assert await store.append("log", [b"c"]) == 1
    assert await store.read("log", 0, 9) == [(1, b"c")]
    clock.now += 1
    assert not await store.drop("log2")


async def test_appends_at_once_lose_nothing_and_stay_together(store: Store) -> None:
    pairs = [[b"%d" % n, b"%d'" % n] for n in range(50)]
    ends = await asyncio.gather(*(store.append("log", pair) for pair in pairs))
    assert sorted(ends) == list(range(2, 101, 2))
    entries = [entry for _, entry in await store.read("log", 0, 1000)]
    for pair, end in zip(pairs, ends, strict=True):
        assert entries[end - 2 : end] == pair


async def test_entries_logs_and_leases_share_no_names(store: Store) -> None:
    await store.put("x", b"value")
    await store.append("x", [b"entry"])
    assert await store.acquire("x", "me", 10)
    assert await store.delete("x")
    assert await store.last("x") == 1
    await store.drop_prefix("x")
    assert await store.last("x") == 0
    assert await store.holder("x") == "me", "a lease belongs to its owner"


async def test_messages_reach_everyone_who_listens_in_order(store: Store) -> None:
    first: list[bytes] = []
    second: list[bytes] = []
    other: list[bytes] = []
    await store.publish("topic", b"too early")
    await store.subscribe("topic", first.append)
    await store.subscribe("topic", second.append)
    await store.subscribe("topi", other.append)
    for n in range(100):
        await store.publish("topic", b"%d" % n)
    await store.publish("topi", b"last")
    await until(lambda: other)
    assert first == second == [b"%d" % n for n in range(100)]
    assert other == [b"last"]


async def test_a_message_never_arrives_within_the_call_that_sends_it(store: Store) -> None:
    seen: list[str] = []
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def publish() -> None:
        seen.append("begin")
        await store.publish("topic", b"")
        seen.append("end")

    def arrived(_: bytes) -> None:
        assert asyncio.current_task() is None
        seen.append("message")
        done.set_result(None)

    await store.subscribe("topic", arrived)
    await publish()
    await done
    assert "message" in seen and seen[0] == "begin"


async def test_a_closed_subscription_hears_nothing_more(store: Store) -> None:
    seen: list[bytes] = []
    rest: list[bytes] = []
    subscription = await store.subscribe("topic", seen.append)
    await store.subscribe("topic", rest.append)
    await store.publish("topic", b"1")
    await until(lambda: rest)
    sending = asyncio.ensure_future(store.publish("topic", b"2"))
    await asyncio.sleep(0)
    subscription.close()
    subscription.close()
    await sending
    await until(lambda: len(rest) == 2)
    assert seen == [b"1"]


async def test_a_subscription_may_close_itself(store: Store) -> None:
    seen: list[bytes] = []
    rest: list[bytes] = []

    def once(message: bytes) -> None:
        seen.append(message)
        subscription.close()

    subscription = await store.subscribe("topic", once)
    await store.subscribe("topic", rest.append)
    for n in range(3):
        await store.publish("topic", b"%d" % n)
    await until(lambda: len(rest) == 3)
    assert seen == [b"0"]


async def test_a_failing_listener_hurts_only_itself(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[bytes] = []

    def fail(_: bytes) -> None:
        raise ValueError("broken listener")

    await store.subscribe("topic", fail)
    await store.subscribe("topic", seen.append)
    await store.publish("topic", b"1")
    await store.publish("topic", b"2")
    await until(lambda: len(seen) == 2)
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


def test_a_listener_whose_loop_has_ended_is_forgotten(store: Store) -> None:
    gone: list[bytes] = []
    seen: list[bytes] = []

    async def listen_and_leave() -> None:
        await store.subscribe("topic", gone.append)

    async def listen() -> None:
        await store.subscribe("topic", seen.append)
        await store.publish("topic", b"1")
        await until(lambda: seen)

    asyncio.run(listen_and_leave())
    asyncio.run(listen())
    assert seen == [b"1"] and gone == []


async def test_a_lease_has_one_holder(store: Store) -> None:
    assert await store.holder("name") is None
    assert await store.acquire("name", "a", 10)
    assert not await store.acquire("name", "b", 10)
    assert await store.holder("name") == "a"
    assert not await store.release("name", "b")
    assert await store.holder("name") == "a"
    assert await store.release("name", "a")
    assert not await store.release("name", "a")
    assert await store.acquire("name", "b", 10)


async def test_a_lease_is_taken_over_when_it_is_not_renewed(store: Store, clock: Clock) -> None:
    await store.acquire("name", "a", 10)
    clock.now += 8
    assert await store.acquire("name", "a", 10), "to acquire one's own is to renew it"
    clock.now += 8
    assert not await store.acquire("name", "b", 10)
    clock.now += 2
    assert await store.holder("name") is None
    assert not await store.release("name", "a")
    assert await store.acquire("name", "b", 10)
    assert not await store.acquire("name", "a", 10)
    assert await store.holder("name") == "b"


async def test_one_of_fifty_that_want_a_lease_at_once_gets_it(store: Store) -> None:
    got = await asyncio.gather(*(store.acquire("name", f"{n}", 60) for n in range(50)))
    assert got.count(True) == 1
    assert await store.holder("name") == str(got.index(True))


async def test_a_closed_store_says_so(store: Store) -> None:
    heard: list[bytes] = []
    await store.put("a", b"1")
    await store.subscribe("topic", heard.append)
    await asyncio.gather(store.close(), store.close())
    await store.close()
    attempts = [
        lambda: store.get("a"),
        lambda: store.put("a", b""),
        lambda: store.add("a", b""),
        lambda: store.touch("a", 1),
        lambda: store.delete("a"),
        lambda: store.count(""),
        lambda: store.keys("", 1),
        lambda: store.append("a", [b""]),
        lambda: store.read("a", 0, 1),
        lambda: store.last("a"),
        lambda: store.drop("a"),
        lambda: store.drop_prefix(""),
        lambda: store.publish("topic", b""),
        lambda: store.subscribe("topic", heard.append),
        lambda: store.acquire("a", "me", 1),
        lambda: store.release("a", "me"),
        lambda: store.holder("a"),
    ]
    for attempt in attempts:
        with pytest.raises(StoreClosed, match="closed"):
            await attempt()
    assert issubclass(StoreClosed, StoreError)
    assert heard == []


async def test_operations_running_at_close_finish_or_are_refused(store: Store) -> None:
    puts = [asyncio.ensure_future(store.put(f"{n}", b"")) for n in range(100)]
    await asyncio.sleep(0)
    await store.close()
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert all(outcome is None or isinstance(outcome, StoreClosed) for outcome in outcomes)


def test_one_loop_after_the_other_may_use_it(store: Store) -> None:
    asyncio.run(store.put("a", b"1", 60))
    assert asyncio.run(store.get("a")) == b"1"
    assert asyncio.run(store.touch("a", 60))


async def test_many_kinds_of_work_at_once_agree_with_a_plain_dictionary(store: Store, clock: Clock) -> None:
    dice = random.Random(4)
    model: dict[str, tuple[bytes, float]] = {}
    for step in range(2000):
        key = f"k{dice.randrange(40)}"
        ttl = dice.choice([1.0, 5.0, 30.0])
        alive = key in model and model[key][1] > clock.now
        match dice.randrange(6):
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
                assert await store.get(key) == (model[key][0] if alive else None)
            case _:
                clock.now += dice.random()
    assert sorted(await store.keys("", 100)) == sorted(key for key, (_, end) in model.items() if end > clock.now)
