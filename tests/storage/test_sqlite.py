"""The store in a file: shared by processes, kept through their death, and careful with files of others."""

import asyncio
import os
import signal
import sqlite3
import stat
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dovetail.storage import sqlite_logs
from dovetail.storage.contract import LogEntries, StoreError, StoreUnavailable, StoreUnusable
from dovetail.storage.sqlite import SqliteStore
from dovetail.storage.sqlite_file import APPLICATION, VERSION
from dovetail.storage.sqlite_logs import DELIVERY_SECONDS, IDLE_POLL, POLL
from tests.storage.test_contract import Clock
from tests.support.waiting import until

OTHER = Path(__file__).with_name("other_process.py")

posix_only = pytest.mark.skipif(os.name == "nt", reason="modes, fork and SIGKILL are of POSIX")


class Other:
    """Another process with a store on the same file, which does as it is told, one line at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process = process
        self._in, self._out = process.stdin, process.stdout

    async def does(self, *words: str) -> str:
        """One order, one line of answer."""
        self._in.write((" ".join(words) + "\n").encode())
        return await self.says()

    async def says(self) -> str:
        return (await self._out.readline()).decode().strip()


@asynccontextmanager
async def other_process(path: Path) -> AsyncIterator[Other]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(OTHER),
        str(path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    other = Other(process)
    try:
        assert await other.says() == "ready"
        yield other
        if process.returncode is None:
            other._in.close()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def opened(path: Path, clock: Clock | None = None) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path) if clock is None else SqliteStore(path, clock=clock)
    try:
        yield store
    finally:
        await store.close()


def rows(path: Path, table: str) -> int:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    finally:
        connection.close()


async def test_two_processes_share_entries_logs_groups_and_buckets(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store, other_process(path) as other:
        await store.put("ours", b"1", 60)
        assert await other.does("get", "ours") == "1"
        assert await other.does("put", "theirs", "2") == "None"
        assert await store.get("theirs") == b"2"
        assert await other.does("add", "ours", "x") == "False"
        assert await store.append("log", [b"a"]) == 1
        assert await other.does("append", "log", "b") == "2"
        assert await store.read("log", 0, 9) == [(1, b"a"), (2, b"b")]
        assert await other.does("join", "group", "them", "1") == "True"
        assert not await store.join("group", "us", 60, 1)
        assert await other.does("leave", "group", "them") == "True"
        assert await store.join("group", "us", 60, 1)
        assert await store.take("bucket", 0.001, 1) == 0
        assert float(await other.does("take", "bucket")) > 0
        assert store.shared


async def test_entries_pass_between_processes_in_order(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    heard: list[bytes] = []

    def receive(entries: LogEntries) -> None:
        heard.extend(entry for _, entry in entries)

    async with opened(path) as store, other_process(path) as other:
        await store.follow("to-us", 0, receive)
        assert await other.does("echo", "to-them", "to-us") == "None"
        for n in range(200):
            await store.append("to-them", [b"%d" % n])
        await until(lambda: len(heard) == 200)
        assert heard == [b"%d" % n for n in range(200)], "there and back, none lost, none twice"


async def test_of_two_processes_that_add_the_same_keys_each_key_has_one_winner(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store, other_process(path) as other:
        racing = asyncio.ensure_future(other.does("race", "300"))
        won = [n for n in range(300) if await store.add(f"race:{n}", b"us", 60)]
        lost = [int(n) for n in (await racing).split()]
        assert sorted(won + lost) == list(range(300))


@posix_only
async def test_a_killed_writer_loses_nothing_it_had_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with other_process(path) as other:
        other._in.write(b"flood\n")
        acknowledged = 0
        while acknowledged < 300:
            acknowledged = int(await other.says())
        os.kill(other.process.pid, signal.SIGKILL)
        # What it had still said before it died counts too.
        while line := await other.says():
            acknowledged = int(line) if line.isdigit() else acknowledged
        assert await other.process.wait() == -signal.SIGKILL
        async with opened(path) as store:
            last = await store.last("flood")
            assert last >= acknowledged >= 300
            assert [n for n, _ in await store.read("flood", 0, 10**6)] == list(range(1, last + 1))
            assert await store.get(f"flood:{acknowledged}") is not None


async def test_stored_data_survives_reopening(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", Clock()
    async with opened(path, clock) as store:
        await store.put("session", b"state", 60)
        await store.put("short", b"state", 10)
        await store.append("log", [b"a", b"b", b"c"], ttl=60, keep=2)
        await store.claim("log", "us", 60)
        await store.join("group", "us", 60, 1)
        await store.take("bucket", 0.001, 1)
    clock.now += 30
    async with opened(path, clock) as store:
        assert await store.get("session") == b"state"
        assert await store.get("short") is None
        assert await store.read("log", 0, 9) == [(2, b"b"), (3, b"c")]
        assert await store.append("log", [b"d"], ttl=60, writer="them") is None
        assert await store.append("log", [b"d"], ttl=60, writer="us") == 4
        assert await store.oldest("group") == ("us", 30.0)
        assert await store.take("bucket", 0.001, 1) == 970
    assert sorted(file.name for file in tmp_path.iterdir()) == ["store.db"], "closing leaves one tidy file"


async def test_expired_rows_are_deleted_in_small_steps(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", Clock()
    async with opened(path, clock) as store:
        await asyncio.gather(*(store.put(f"{n}", b"", 10) for n in range(500)))
        await asyncio.gather(*(store.join("group", f"{n}", 10, 50) for n in range(50)))
        await asyncio.gather(*(store.take(f"{n}", 1, 10, 10) for n in range(50)))
        await store.append("ended", [b""] * 500, ttl=10)
        await store.append("dropped", [b""] * 300)
        await store.append("alive", [b"kept"])
        await store.put("alive", b"kept")
        assert await store.drop("dropped")
        clock.now += 60
        before = rows(path, "entries")
        await store.touch("alive", None)
        assert before - rows(path, "entries") == 200, "no more than a step at once"
        for _ in range(10):
            await store.touch("alive", None)
        assert rows(path, "entries") == 1
        assert rows(path, "members") == rows(path, "group_sizes") == rows(path, "buckets") == 0
        assert rows(path, "logs") == 1
        assert rows(path, "events") == 1


async def test_a_turn_of_the_loop_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        await store.put("a", b"1")
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        writing = asyncio.ensure_future(store.put("a", b"2"))
        for _ in range(100):
            assert await store.get("a") == b"1"
        assert not writing.done()
        blocker.execute("COMMIT")
        blocker.close()
        await writing
        assert await store.get("a") == b"2"


async def test_the_store_polls_for_entries_only_while_there_are_followers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_logs, "_IDLE_CHECKS", 5)
    async with opened(tmp_path / "store.db") as store:
        pauses: list[float | None] = []
        check = store._writer._after_commit

        def noted(connection: sqlite3.Connection) -> float | None:
            pauses.append(check(connection))
            return pauses[-1]

        store._writer._after_commit = noted
        await store.put("a", b"")
        assert pauses == [None]
        subscription = await store.follow("log", 0, lambda _: None)
        await until(lambda: IDLE_POLL in pauses)
        assert pauses[1:7] == [POLL] * 5 + [IDLE_POLL], "after a time without news it polls less often"
        await store.append("log", [b""])
        assert POLL in pauses[7:]
        subscription.close()
        await store.put("a", b"")
        assert pauses[-1] is None


async def test_a_file_that_another_program_keeps_locked_makes_the_store_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    received: list[LogEntries] = []
    async with opened(path) as store, opened(path) as other:
        await store.follow("log", 0, received.append)
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        begun = asyncio.get_running_loop().time()
        attempts = [store.append("log", [b"1"]), store.put("a", b""), store.take("b", 1, 1), store.claim("log", "w")]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
        assert "locked" in str(outcomes[0])
        assert asyncio.get_running_loop().time() - begun < 5, "about a second, on a machine that is not busy"
        assert await store.get("a") is None, "reading goes on"
        blocker.execute("ROLLBACK")
        blocker.close()
        await other.append("log", [b"2"])
        await until(lambda: received)
        assert received == [[(1, b"2")]]


async def test_a_key_that_has_no_utf8_hurts_only_itself(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        outcomes = await asyncio.gather(
            store.put("a", b"1"), store.put("\ud800", b"2"), store.put("b", b"3"), return_exceptions=True
        )
        assert isinstance(outcomes[1], UnicodeEncodeError)
        assert [await store.get("a"), await store.get("b")] == [b"1", b"3"]


@posix_only
def test_the_files_are_for_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    before = os.umask(0)
    try:
        store = SqliteStore(path)
        asyncio.run(store.put("a", b"secret"))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        asyncio.run(store.close())
    finally:
        os.umask(before)
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}


def test_many_may_create_the_same_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    start = threading.Barrier(8)
    stores: list[SqliteStore] = []

    def create() -> None:
        start.wait()
        stores.append(SqliteStore(path))

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 8


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, " * 500)
    with pytest.raises(StoreUnusable, match=r"letter\.txt cannot be used as a store: file is not a database"):
        SqliteStore(path)
    assert path.read_text() == "Dear reader, " * 500


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match=r"other\.db is an SQLite database of another program"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreUnusable, match="newer version"):
        SqliteStore(path)


VERSION_1 = (
    "CREATE TABLE entries (key TEXT NOT NULL UNIQUE, value BLOB NOT NULL, expires REAL NOT NULL)",
    "CREATE INDEX entries_by_end ON entries (expires)",
    "CREATE TABLE logs (id INTEGER PRIMARY KEY, name TEXT UNIQUE, last INTEGER NOT NULL, expires REAL NOT NULL)",
    "CREATE INDEX logs_by_end ON logs (expires)",
    "CREATE TABLE events (log INTEGER NOT NULL, position INTEGER NOT NULL, entry BLOB NOT NULL,"
    " PRIMARY KEY (log, position)) WITHOUT ROWID",
    "CREATE TABLE leases (name TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, expires REAL NOT NULL)",
    "CREATE INDEX leases_by_end ON leases (expires)",
    "CREATE TABLE messages (number INTEGER PRIMARY KEY, topic TEXT NOT NULL, message BLOB NOT NULL,"
    " sent REAL NOT NULL)",
    f"PRAGMA application_id = {APPLICATION}",
    "PRAGMA user_version = 1",
    "INSERT INTO entries VALUES ('session', 'state', 9e999)",
    "INSERT INTO logs VALUES (7, 'log', 3, 9e999), (8, NULL, 1, -1)",
    "INSERT INTO events VALUES (7, 2, 'b'), (7, 3, 'c'), (8, 1, 'dropped')",
    "INSERT INTO leases VALUES ('name', 'owner', 9e999)",
    "INSERT INTO messages VALUES (1, 'topic', 'message', 0)",
)


async def test_a_file_of_the_first_format_is_upgraded_with_its_contents(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in VERSION_1:
        connection.execute(statement)
    connection.close()
    async with opened(path) as store, opened(path) as other:
        assert await store.get("session") is not None
        assert [position for position, _ in await store.read("log", 0, 9)] == [2, 3]
        assert await store.append("log", [b"d"], close=True) == 4
        assert await other.append("log", [b"e"]) is None
        assert await other.append("new", [b"x"]) == 1
        assert await other.join("group", "member", 60, 1)
    connection = sqlite3.connect(path)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert not tables & {"leases", "messages", "old_logs"}
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert connection.execute("SELECT id FROM logs WHERE name = 'new'").fetchone() == (9,)
    connection.close()


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_store_without_a_file_is_refused(path: str) -> None:
    with pytest.raises(StoreUnusable, match="MemoryStore"):
        SqliteStore(path)


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="cannot be created: No such file or directory"):
        SqliteStore(tmp_path / "nowhere" / "store.db")


async def test_a_file_that_is_damaged_later_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        await asyncio.gather(*(store.put(f"{n}", bytes(1000)) for n in range(200)))
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096 * 30)
    async with opened(path) as store:
        with pytest.raises(StoreError, match="malformed"):
            await store.get("100")
        with pytest.raises(StoreError, match="malformed"):
            await store.put("100", b"")


async def test_a_store_that_need_not_be_durable_works_like_others(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path, durable=False)
    await store.put("a", b"1")
    async with opened(path) as other:
        assert await other.get("a") == b"1"
    await store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["store.db"]


async def test_delivery_to_other_processes_takes_time_only_if_one_has_written_lately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_logs, "_OTHERS_SECONDS", 1.0)
    store, other = SqliteStore(tmp_path / "store.db"), SqliteStore(tmp_path / "store.db")
    await store.follow("log", 0, lambda _: None)
    await until(lambda: store.delivery_seconds == 0.0)
    await store.put("key", b"of this process")
    assert store.delivery_seconds == 0.0
    await other.put("key", b"of another")
    await until(lambda: store.delivery_seconds == DELIVERY_SECONDS)
    await store.close()
    await other.close()


@posix_only
def test_a_store_made_before_a_fork_works_after_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(store.put("a", b"from the child"))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert asyncio.run(store.get("a")) == b"from the child"
    asyncio.run(store.close())
