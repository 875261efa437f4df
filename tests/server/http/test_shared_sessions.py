"""Sessions served by two replicas over one store: every request may reach either."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dovetail import Context
from dovetail.server.replicas import replica as replica_module
from dovetail.server.replicas.messages import TaskChanged
from dovetail.server.replicas.replica import Replica
from dovetail.storage import SqliteStore, StoreUnavailable
from dovetail.storage.contract import LogEntries, Subscription
from tests.support.raw_http import BOTH, EVENTS, JSON, SESSIONS, Answer, Event, Session, Site, initialize, text_of
from tests.support.waiting import until
from tests.support.workshop import Endpoint, Workshop, workshop

every_revision = pytest.mark.parametrize("revision", SESSIONS)


class Two(NamedTuple):
    """Two replicas: their servers, and their addresses."""

    one: Workshop
    other: Workshop
    here: Site
    there: Site
    apps: tuple[Endpoint, Endpoint]

    def moved(self, session: Session) -> Session:
        """The same session at the other replica."""
        return Session(self.there, session.revision, session.id)


@contextlib.asynccontextmanager
async def two(folder: Path, **options: Any) -> AsyncGenerator[Two]:
    store = str(folder / "store.db")
    async with (
        workshop(store=store, **options) as (one, here, first),
        workshop(store=store, **options) as (other, there, second),
    ):
        yield Two(one, other, here, there, (first, second))


async def next_event(answer: Answer) -> Event:
    while (event := await answer.next()) is not None:
        if event.data:
            return event
    raise AssertionError("the stream ended")


@every_revision
async def test_a_session_is_served_and_ended_anywhere(revision: str, tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        session = await replicas.here.session(revision)
        moved = replicas.moved(session)
        assert text_of(await (await moved.call("who")).json()) == f"None {revision}"
        assert (await moved.delete()).status == 204
        async with asyncio.timeout(10):
            while (await session.ask("ping")).status != 404:
                pass


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])  # 2025-03-26 has no elicitation
async def test_an_answer_finds_the_call_that_waits_for_it(revision: str, tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        session = await replicas.here.session(revision, elicitation={})
        call = await session.call("ask", question="Who?")
        question = await call.message()
        accepted = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"value": "Ann"}}}
        assert (await replicas.moved(session).post(accepted)).status == 202
        assert text_of(await call.answer()) == "accept: Ann"


async def test_progress_of_an_answer_finds_the_call_that_waits_for_it(tmp_path: Path) -> None:
    heard: list[float] = []
    async with two(tmp_path) as replicas:

        @replicas.one.tool
        async def consult(ctx: Context) -> str:
            return str(await ctx.request("notes/count", progress=lambda done, *_: heard.append(done)))

        session = await replicas.here.session("2025-11-25")
        call = await session.call("consult")
        question = await call.message()
        token = question["params"]["_meta"]["progressToken"]
        progress = {"jsonrpc": "2.0", "method": "notifications/progress"}
        moved = replicas.moved(session)
        assert (await moved.post({**progress, "params": {"progressToken": token, "progress": 0.5}})).status == 202
        await until(lambda: heard == [0.5])
        call.line.abort()


@every_revision
async def test_a_cancellation_finds_the_call(revision: str, tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        session = await replicas.here.session(revision)
        call = await session.post(
            {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
        )
        await until(lambda: replicas.one.began == ["wait"])
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}
        assert (await replicas.moved(session).post(cancel)).status == 202
        await until(lambda: replicas.one.ended == ["wait"])
        call.line.abort()


@every_revision
async def test_a_stream_is_replayed_and_followed_at_the_other_replica(revision: str, tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        session = await replicas.here.session(revision)
        call = await session.call("pace", token=1, count=40)
        last = (await next_event(call)).id
        call.line.abort()
        again = await replicas.moved(session).get(last=last)
        replicas.one.go.set()
        messages = await again.messages()
        steps = [message["params"]["progress"] for message in messages if "method" in message]
        assert steps == [number + 1 for number in range(40)]
        assert text_of(messages[-1]) == "paced"


async def test_changes_at_one_replica_are_heard_at_the_other(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        session = await replicas.here.session("2025-11-25")
        assert "result" in await (await session.ask("resources/subscribe", uri="config://app")).json()
        stream = await replicas.moved(session).get()
        replicas.one.notify_resource_updated("config://app")
        assert (await stream.message())["params"] == {"uri": "config://app"}
        replicas.one.notify_prompts_changed()
        assert (await stream.message())["method"] == "notifications/prompts/list_changed"


async def test_a_change_is_announced_only_where_the_list_has_it(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        session = await replicas.here.session("2025-11-25")
        stream = await replicas.moved(session).get()
        replicas.one.tool(lambda: 1, name="extra", description="One")
        replicas.one.notify_resource_updated("config://app")
        replicas.one.notify_prompts_changed()
        assert (await stream.message())["method"] == "notifications/prompts/list_changed", "and nothing of tools"
        replicas.other.tool(lambda: 1, name="extra", description="One")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"


async def test_a_subscription_made_elsewhere_counts_where_the_stream_is_open(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        session = await replicas.here.session("2025-11-25")
        stream = await session.get()
        await (await replicas.moved(session).ask("resources/subscribe", uri="config://app")).json()
        replicas.other.notify_resource_updated("config://app")
        assert (await stream.message())["params"] == {"uri": "config://app"}
        await (await replicas.moved(session).ask("resources/unsubscribe", uri="config://app")).json()
        replicas.other.notify_resource_updated("config://app")
        replicas.other.notify_prompts_changed()
        assert (await stream.message())["method"] == "notifications/prompts/list_changed"


async def test_changes_while_the_stream_was_closed_are_told_at_the_other_replica_once(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        session = await replicas.here.session("2025-11-25")
        stream = await session.get()
        replicas.one.notify_prompts_changed()
        last = (await next_event(stream)).id
        stream.line.abort()
        (live,) = replicas.apps[0].router.sessions.live()
        await until(lambda: not live.busy)
        replicas.one.notify_resources_changed()
        again = await replicas.moved(session).get(last=last)
        assert (await again.message())["method"] == "notifications/resources/list_changed"
        replicas.one.notify_tools_changed()
        assert (await again.message())["method"] == "notifications/tools/list_changed", "and nothing twice"


async def test_a_change_is_told_by_a_replica_that_starts_after_many_other_announcements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that has just been started reads only the newest announcements."""
    monkeypatch.setattr(replica_module, "RECENT_ANNOUNCEMENTS", 20)
    async with two(tmp_path) as replicas:
        session = await replicas.here.session("2025-11-25")
        await (await session.ask("resources/subscribe", uri="config://app")).json()
        stream = await session.get()
        replicas.other.notify_resource_updated("config://app")
        last = (await next_event(stream)).id
        cut_off(replicas.apps[0])
        replicas.other.notify_resource_updated("config://app")
        await announce_many(replicas.apps[1], 50)
        async with workshop(store=str(tmp_path / "store.db")) as (_, started, _):
            again = await Session(started, session.revision, session.id).get(last=last)
            while (await again.message()).get("params") != {"uri": "config://app"}:
                pass


async def test_a_replica_that_missed_announcements_for_ever_reads_its_sessions_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_module, "MAX_ANNOUNCEMENTS", 50)
    async with two(tmp_path) as replicas:
        session = await replicas.here.session("2025-11-25")
        await (await session.ask("ping")).json()
        replica, follow_again = cut_off(replicas.apps[0])
        assert (await replicas.moved(session).delete()).status == 204
        await announce_many(replicas.apps[1], 100)
        position = replica.position
        await follow_again()
        await until(lambda: replica.position > position + 100)
        assert (await session.ask("ping")).status == 404


async def test_a_listener_is_told_of_all_that_it_watches_after_announcements_were_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On 2026-07-28 a stream belongs to one replica, and nothing is read again for it."""
    monkeypatch.setattr(replica_module, "MAX_ANNOUNCEMENTS", 50)
    async with two(tmp_path) as replicas:
        wanted = {"promptsListChanged": True, "resourceSubscriptions": ["config://app"]}
        stream = await replicas.here.modern("subscriptions/listen", notifications=wanted)
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        _, follow_again = cut_off(replicas.apps[0])
        replicas.other.notify_resource_updated("config://app")
        replicas.other.notify_prompts_changed()
        await announce_many(replicas.apps[1], 100)
        await follow_again()
        assert (await stream.message())["method"] == "notifications/prompts/list_changed"
        assert (await stream.message())["params"]["uri"] == "config://app"
        stream.line.abort()


async def test_a_subscription_made_elsewhere_is_told_of_an_update_that_was_missed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_module, "MAX_ANNOUNCEMENTS", 50)
    async with two(tmp_path) as replicas:
        session = await replicas.here.session("2025-11-25")
        stream = await session.get()
        _, follow_again = cut_off(replicas.apps[0])
        await (await replicas.moved(session).ask("resources/subscribe", uri="config://app")).json()
        replicas.other.notify_resource_updated("config://app")
        await announce_many(replicas.apps[1], 100)
        await follow_again()
        while (await stream.message()).get("params") != {"uri": "config://app"}:
            pass


async def test_the_status_of_a_task_is_told_where_the_stream_of_its_session_is_open(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        for server in (replicas.one, replicas.other):
            server.tool(server.wait, name="work", task="optional")
        session = await replicas.here.session("2025-11-25")
        stream = await replicas.moved(session).get()
        created = await session.ask("tools/call", name="work", arguments={}, task={})
        id = (await created.answer())["result"]["task"]["taskId"]
        replicas.one.go.set()
        replicas.other.go.set()
        told: list[dict[str, Any]] = []
        while not told or told[-1]["method"] != "notifications/tasks/status":
            told.append(await stream.message())
        assert (told[-1]["params"]["taskId"], told[-1]["params"]["status"]) == (id, "completed")
        replicas.one.notify_prompts_changed()
        assert (await stream.message())["method"] == "notifications/prompts/list_changed", "and it is told once"


async def test_a_change_of_a_session_that_is_acknowledged_counts_at_the_other_replica(tmp_path: Path) -> None:
    """As with workers, whose stores do not wait for the disk: one that does checks for announcements afterwards."""
    first, second = (SqliteStore(tmp_path / "store.db", durable=False) for _ in range(2))
    async with workshop(store=first) as (_, here, _), workshop(store=second) as (_, there, _):
        session = await here.session("2025-11-25")
        moved = Session(there, session.revision, session.id)
        for level, kind in [("emergency", JSON), ("debug", EVENTS)] * 5:
            await (await session.ask("logging/setLevel", level=level)).json()
            called = await moved.call("log")
            assert called.kind == kind, "a stream of events if there is a log message, else one value"
            await called.body()


async def test_a_change_of_a_session_is_acknowledged_when_its_announcement_has_come_back(tmp_path: Path) -> None:
    class LateDelivery(SqliteStore):
        """A store whose announcements are held back, as of a process that has no time to check for them."""

        arrived = asyncio.Event()
        deliver = asyncio.Event()

        async def follow(self, log: str, after: int, callback: Callable[[LogEntries], None]) -> Subscription:
            async def later(entries: LogEntries) -> None:
                self.arrived.set()
                await self.deliver.wait()
                callback(entries)

            tasks: set[asyncio.Task[None]] = set()
            return await super().follow(log, after, lambda entries: tasks.add(asyncio.create_task(later(entries))))

    store = LateDelivery(tmp_path / "store.db")
    async with workshop(store=store) as (_, site, app):
        session = await site.session("2025-11-25")
        replica = app.router.sessions._replica
        assert replica is not None
        answer = asyncio.create_task(session.ask("logging/setLevel", level="error"))
        await store.arrived.wait()
        (waiting,) = replica._unheard.values()
        assert not answer.done() and len(waiting) == 1
        store.deliver.set()
        assert "result" in await (await answer).json()
        assert not replica._unheard


async def test_a_change_of_a_session_is_acknowledged_although_nobody_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_module, "HEARD_SECONDS", 0.05)
    async with workshop(store=str(tmp_path / "store.db")) as (_, site, app):
        session = await site.session("2025-11-25")
        replica, _ = cut_off(app)
        assert "result" in await (await session.ask("logging/setLevel", level="error")).json()
        assert not replica._unheard


def cut_off(app: Endpoint) -> tuple[Replica, Callable[[], Awaitable[None]]]:
    """Let a replica hear no announcements, until it follows them again from where it was."""
    replica = app.router.sessions._replica
    assert replica is not None
    for subscription in replica._subscriptions:
        subscription.close()

    async def follow_again() -> None:
        replica._subscriptions = [
            await replica.store.follow(replica_module._ANNOUNCEMENTS, replica.position, replica._announced)
        ]

    return replica, follow_again


async def announce_many(app: Endpoint, number: int) -> None:
    """Announce changes of tasks, which concern no session."""
    replica = app.router.sessions._replica
    assert replica is not None
    for index in range(number):
        replica.announce(TaskChanged(f"{index}"))
        if index % 40 == 39:
            await until(lambda: not replica._outbox)
    await until(lambda: not replica._has_outgoing.is_set())


async def test_subscriptions_at_both_replicas_at_once_are_all_kept(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        for server in (replicas.one, replicas.other):
            server.resource("items://{id}")(lambda id: id)
        session = await replicas.here.session("2025-11-25")
        both = (session, replicas.moved(session))
        answers = await asyncio.gather(
            *(both[number % 2].ask("resources/subscribe", uri=f"items://{number}") for number in range(12))
        )
        assert {answer.status for answer in answers} == {200}
        stream = await session.get()
        for number in range(12):
            replicas.other.notify_resource_updated(f"items://{number}")
        heard: set[str] = set()
        while len(heard) < 12:
            message = await stream.message()
            if message["method"] == "notifications/resources/updated":
                heard.add(message["params"]["uri"])


async def test_sessions_are_counted_across_replicas(tmp_path: Path) -> None:
    async with two(tmp_path, max_sessions=3) as replicas:
        opened = [await site.session("2025-11-25") for site in (replicas.here, replicas.there, replicas.here)]
        refused = await replicas.there.post(initialize("2025-11-25"))
        assert (refused.status, refused.headers["retry-after"]) == (503, "60")
        assert (await opened[1].delete()).status == 204
        assert (await replicas.here.session("2025-11-25")).id


async def test_a_post_of_http_sse_reaches_the_replica_of_its_stream(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        stream = await replicas.here.ask("GET", [("Accept", "text/event-stream")], path="/sse")
        endpoint = await stream.next()
        assert endpoint is not None and endpoint.data is not None
        path = endpoint.data
        hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await replicas.there.post(hello, path=path)).status == 202
        assert (await stream.message())["id"] == 1
        assert (await replicas.there.post(hello, path=path[:-4] + "0000")).status == 404
        stream.line.abort()


async def test_a_stream_of_http_sse_is_found_though_its_replica_could_not_reach_the_store_at_first(
    tmp_path: Path,
) -> None:
    """Its first heartbeat failed; other replicas would take it for dead."""

    class FailsAtFirst(SqliteStore):
        failed = False

        async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
            if not self.failed:
                self.failed = True
                raise StoreUnavailable("away for a moment")
            await super().put(key, value, ttl)

    path = tmp_path / "store.db"
    async with workshop(store=FailsAtFirst(path)) as (_, here, _), workshop(store=str(path)) as (_, there, _):
        stream = await here.ask("GET", [("Accept", "text/event-stream")], path="/sse")
        first = await stream.next()
        assert first is not None and first.data is not None
        assert (await there.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, path=first.data)).status == 202
        assert (await stream.message())["id"] == 1
        stream.line.abort()


async def test_a_stream_can_be_resumed_after_the_store_was_away_for_a_moment(tmp_path: Path) -> None:
    """The attempt that failed leaves nothing behind that the next one would wait for."""

    class Hiccup(SqliteStore):
        fails = False

        async def follow(self, log: str, after: int, callback: Callable[[LogEntries], None]) -> Subscription:
            if self.fails:
                self.fails = False
                raise StoreUnavailable("away for a moment")
            return await super().follow(log, after, callback)

    first, second = Hiccup(tmp_path / "store.db"), Hiccup(tmp_path / "store.db")
    async with workshop(store=first) as (one, here, _), workshop(store=second) as (_, there, _):
        session = await here.session("2025-11-25")
        call = await session.call("pace", token=1, count=3)
        last = (await next_event(call)).id
        call.line.abort()
        moved = Session(there, session.revision, session.id)
        await (await moved.ask("ping")).json()
        second.fails = True
        assert (await moved.get(last=last)).status == 503
        again = await moved.get(last=last)
        one.go.set()
        assert text_of((await again.messages())[-1]) == "paced"


async def test_a_stream_resumed_at_the_other_replica_leaves_its_old_connection(tmp_path: Path) -> None:
    """The client knows that the connection is dead before the server does: no message is sent on two connections."""
    async with two(tmp_path) as replicas:
        session = await replicas.here.session("2025-11-25")
        old = await session.call("pace", token=1, count=20)
        last = (await next_event(old)).id
        new = await replicas.moved(session).get(last=last)
        assert [event for event in await old.all() if event.data] == []
        replicas.one.go.set()
        messages = await new.messages()
        assert [message["params"]["progress"] for message in messages[:-1]] == list(range(1, 21))
        assert text_of(messages[-1]) == "paced"


async def test_a_connection_that_nobody_reads_holds_up_no_stream_resumed_at_the_other_replica(tmp_path: Path) -> None:
    """A network that went away leaves a connection that is full, and not closed."""
    async with two(tmp_path) as replicas:

        @replicas.one.tool
        async def flood(ctx: Context) -> str:
            for number in range(50):  # more than the buffers of both sides hold
                await ctx.progress(number + 1, message="x" * 200_000)
            return "flooded"

        session = await replicas.here.session("2025-11-25")
        line = await replicas.here.connect(receive_buffer=8192)
        params = {"name": "flood", "arguments": {}, "_meta": {"progressToken": 1}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = [*session.headers.items(), ("Accept", BOTH), ("Content-Type", JSON)]
        old = await line.ask("POST", "/mcp", headers, json.dumps(call).encode())
        last = (await next_event(old)).id
        new = await replicas.moved(session).get(last=last)
        messages = await new.messages()
        numbers = [message["params"]["progress"] for message in messages[:-1]]
        assert numbers == sorted(set(numbers)) and text_of(messages[-1]) == "flooded"


async def test_a_change_is_told_if_the_handshake_was_completed_at_the_other_replica(tmp_path: Path) -> None:
    """A client may open its stream first; that the handshake is complete is found out later there."""
    async with two(tmp_path) as replicas:
        session = await Session(replicas.here, "2025-11-25").begin(ready=False)
        stream = await session.get()
        await replicas.moved(session).post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        replicas.one.notify_prompts_changed()
        assert (await stream.message())["method"] == "notifications/prompts/list_changed"


class SlowReads(SqliteStore):
    """A store whose answers to reads of sessions can be held back: the record is read, and delivered later."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.was_read = asyncio.Event()
        self.deliver = asyncio.Event()
        self.deliver.set()

    def hold(self) -> None:
        self.was_read.clear()
        self.deliver.clear()

    async def get(self, key: str) -> bytes | None:
        value = await super().get(key)
        if key.startswith("session:"):
            self.was_read.set()
            await self.deliver.wait()
        return value


class TestAnnouncementsDuringARead:
    """A replica reads the record of a session, and another changes it before the first has received what it read."""

    @contextlib.asynccontextmanager
    async def replicas(self, folder: Path) -> AsyncGenerator[tuple[Two, SlowReads]]:
        slow = SlowReads(folder / "store.db")
        async with (
            workshop(store=str(folder / "store.db")) as (one, here, first),
            workshop(store=slow) as (other, there, second),
        ):
            yield Two(one, other, here, there, (first, second)), slow

    @pytest.mark.parametrize("known", [False, True], ids=["new to the replica", "known to the replica"])
    async def test_a_change_announced_during_a_read_counts_for_the_next_request(
        self, known: bool, tmp_path: Path
    ) -> None:
        async with self.replicas(tmp_path) as (replicas, slow):
            session = await replicas.here.session("2025-11-25")
            moved, sessions = replicas.moved(session), replicas.apps[1].router.sessions
            if known:
                await (await moved.ask("ping")).json()
                await (await session.ask("logging/setLevel", level="error")).json()
                await until(lambda: sessions.live()[0].stale)
            replica = sessions._replica
            assert replica is not None
            position = replica.position
            slow.hold()
            reading = asyncio.create_task(moved.ask("ping"))
            await slow.was_read.wait()
            await (await session.ask("resources/subscribe", uri="config://app")).json()
            await until(lambda: replica.position > position)
            slow.deliver.set()
            assert (await reading).status == 200
            stream = await moved.get()
            await (await session.ask("ping")).json()
            (live,) = sessions.live()
            await until(lambda: not live.stale)
            replicas.one.notify_resource_updated("config://app")
            assert (await stream.message())["params"] == {"uri": "config://app"}

    @pytest.mark.parametrize("known", [False, True], ids=["new to the replica", "known to the replica"])
    async def test_a_session_deleted_during_a_read_is_not_served(self, known: bool, tmp_path: Path) -> None:
        async with self.replicas(tmp_path) as (replicas, slow):
            session = await replicas.here.session("2025-11-25")
            moved, sessions = replicas.moved(session), replicas.apps[1].router.sessions
            if known:
                await (await moved.ask("ping")).json()
                await (await session.ask("logging/setLevel", level="error")).json()
                await until(lambda: sessions.live()[0].stale)
            replica = sessions._replica
            assert replica is not None
            position = replica.position
            slow.hold()
            reading = asyncio.create_task(moved.ask("ping"))
            await slow.was_read.wait()
            assert (await session.delete()).status == 204
            await until(lambda: replica.position > position)
            slow.deliver.set()
            assert (await reading).status == 404
            assert not sessions.live()
