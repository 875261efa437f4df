"""Sessions over a store: they survive the process, end when nobody uses them, and are never too many."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.server.http import sessions
from dovetail.storage.memory import MemoryStore
from dovetail.storage.sqlite import SqliteStore
from tests.support.http import serving
from tests.support.raw_http import SESSIONS, Answer, Event, Session, Site, initialize, text_of
from tests.support.waiting import until
from tests.support.workshop import Workshop, workshop

every_revision = pytest.mark.parametrize("revision", SESSIONS)


async def first_of(answer: Answer) -> Event:
    while (event := await answer.next()) is not None:
        if event.data:
            return event
    raise AssertionError("the stream ended")


class TestRestarting:
    """The same SQLite file under a new application: to a client it is the same server."""

    @every_revision
    async def test_sessions_go_on(self, revision: str, tmp_path: Path) -> None:
        store = str(tmp_path / "sessions.db")
        async with workshop(store=store) as (_, site, _):
            session = await site.session(revision, elicitation={})
        async with workshop(store=store) as (_, site, _):
            after = Session(site, revision, session.id)
            assert text_of(await (await after.call("who")).json()) == f"None {revision}"
            assert (await after.delete()).status == 204
        async with workshop(store=store) as (_, site, _):
            assert (await Session(site, revision, session.id).ask("ping")).status == 404, "it was ended"

    async def test_what_the_client_said_of_itself_is_remembered(self, tmp_path: Path) -> None:
        store = str(tmp_path / "sessions.db")
        async with workshop(store=store) as (_, site, _):
            session = await site.session("2025-11-25", elicitation={})
            assert "result" in await (await session.ask("resources/subscribe", uri="config://app")).json()
        async with workshop(store=store) as (server, site, _):
            after = Session(site, "2025-11-25", session.id)
            stream = await after.get()
            server.notify_resource_updated("config://app")
            assert (await stream.message())["params"] == {"uri": "config://app"}
            call = await after.call("ask", question="Still there?")
            question = await call.message()
            assert question["method"] == "elicitation/create", "its capabilities are known"
            await after.post({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
            assert text_of(await call.answer()) == "decline: None"

    async def test_a_session_stays_with_its_principal(self, tmp_path: Path) -> None:
        store = str(tmp_path / "sessions.db")
        who = {"a": "alice", "b": "bob"}.get
        async with workshop(Workshop(auth=who), store=store) as (_, site, _):
            site.usual = [("Authorization", "Bearer a")]
            session = await site.session("2025-11-25")
        async with workshop(Workshop(auth=who), store=store) as (_, site, _):
            after = Session(site, "2025-11-25", session.id)
            site.usual = [("Authorization", "Bearer b")]
            assert (await after.ask("ping")).status == 404
            site.usual = [("Authorization", "Bearer a")]
            assert (await after.ask("ping")).status == 200

    @every_revision
    async def test_undelivered_events_are_delivered_afterwards(self, revision: str, tmp_path: Path) -> None:
        store = str(tmp_path / "sessions.db")
        async with workshop(store=store) as (server, site, endpoint):
            session = await site.session(revision)
            call = await session.call("pace", token=1, count=20)
            last = (await first_of(call)).id
            call.line.abort()
            (live,) = endpoint.live()
            await until(lambda: not live.busy)
            server.go.set()
            await until(lambda: server.ended and not live.streams)
        async with workshop(store=store) as (_, site, _):
            again = await Session(site, revision, session.id).get(last=last)
            *told, answer = await again.messages()
            assert [message["params"]["progress"] for message in told] == list(range(1, 21))
            assert text_of(answer) == "paced"

    async def test_the_get_stream_is_taken_up_where_it_was(self, tmp_path: Path) -> None:
        store = str(tmp_path / "sessions.db")
        async with workshop(store=store) as (server, site, endpoint):
            session = await site.session("2025-06-18")
            stream = await session.get()
            server.notify_tools_changed()
            last = (await first_of(stream)).id
            stream.line.abort()
            (live,) = endpoint.live()
            await until(lambda: not live.busy)
            server.notify_prompts_changed()
        async with workshop(store=store) as (server, site, _):
            after = Session(site, "2025-06-18", session.id)
            again = await after.get(last=last)
            event = await first_of(again)
            assert event.message["method"] == "notifications/prompts/list_changed"
            server.notify_resources_changed()
            event = await first_of(again)
            assert event.message["method"] == "notifications/resources/list_changed"

    async def test_a_session_whose_stream_was_open_for_long_is_remembered_too(self, tmp_path: Path) -> None:
        store = str(tmp_path / "sessions.db")
        async with workshop(store=store, session_idle=0.5) as (_, site, _):
            session = await site.session("2025-06-18")
            await session.get()
            await asyncio.sleep(0.8)
        async with workshop(store=store, session_idle=0.5) as (_, site, _):
            assert (await Session(site, "2025-06-18", session.id).ask("ping")).status == 200

    async def test_without_a_store_a_restart_forgets(self) -> None:
        async with workshop() as (_, site, _):
            session = await site.session("2025-06-18")
        async with workshop() as (_, site, _):
            assert (await Session(site, "2025-06-18", session.id).ask("ping")).status == 404

    async def test_a_revision_that_is_served_no_more_ends_its_sessions(self, tmp_path: Path) -> None:
        store = str(tmp_path / "sessions.db")
        async with workshop(store=store) as (_, site, _):
            session = await site.session("2025-03-26")
        async with workshop(Workshop(revisions=SESSIONS[1:]), store=store) as (_, site, _):
            answer = await site.post(
                {"jsonrpc": "2.0", "id": 1, "method": "ping"},
                {"Mcp-Session-Id": session.id, "MCP-Protocol-Version": SESSIONS[1]},
            )
            assert answer.status == 404

    async def test_a_store_that_is_given_is_not_closed_and_may_be_shared(self, tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "sessions.db")
        async with workshop(store=store) as (_, site, _):
            session = await site.session("2025-06-18")
        async with workshop(store=store) as (_, site, _):
            assert (await Session(site, "2025-06-18", session.id).ask("ping")).status == 200
        assert await store.get(f"session:{session.id}") is not None
        await store.close()


class TestExpiring:
    async def test_a_session_that_nobody_uses_ends(self) -> None:
        async with workshop(session_idle=0.2) as (server, site, endpoint):
            session = await site.session("2025-11-25")
            await until(lambda: endpoint.health()["sessions"] == 0)
            assert (await session.ask("ping")).status == 404
            assert not [one for one in server._core._sessions if one.lifecycle.terms is not None]

    async def test_one_that_is_used_lives(self) -> None:
        async with workshop(session_idle=0.3) as (_, site, _):
            session = await site.session("2025-11-25")
            for _ in range(10):
                await asyncio.sleep(0.06)
                assert (await session.ask("ping")).status == 200

    async def test_one_whose_stream_is_open_lives(self) -> None:
        async with workshop(session_idle=0.2) as (server, site, _):
            session = await site.session("2025-06-18")
            stream = await session.get()
            await asyncio.sleep(0.5)
            server.notify_tools_changed()
            assert (await stream.message())["method"] == "notifications/tools/list_changed"

    async def test_one_whose_call_is_waited_for_lives(self) -> None:
        async with workshop(session_idle=0.2) as (server, site, _):
            session = await site.session("2025-06-18")
            call = await session.call("tell_and_wait", token=1)
            await asyncio.sleep(0.5)
            server.go.set()
            assert text_of(await call.answer()) == "told"

    async def test_one_whose_client_has_gone_in_the_middle_of_a_call_ends_and_so_does_the_call(self) -> None:
        async with workshop(session_idle=0.3) as (server, site, endpoint):
            session = await site.session("2025-11-25")
            call = await session.call("tell_and_wait", token=1)
            await first_of(call)
            call.line.abort()
            async with asyncio.timeout(5):
                await until(lambda: endpoint.health()["sessions"] == 0)
                await until(lambda: server.ended == ["tell_and_wait"])

    async def test_what_was_stored_goes_with_it(self) -> None:
        store = MemoryStore()
        async with workshop(store=store, session_idle=0.3) as (server, site, endpoint):
            session = await site.session("2025-11-25")
            server.go.set()
            await (await session.call("pace", token=1, count=5)).messages()
            assert await store.get(f"session:{session.id}") is not None
            await until(lambda: endpoint.health()["sessions"] == 0)
            await until(lambda: not len(store._entries) and not len(store._logs))


class TestTooMany:
    async def test_beyond_the_maximum_a_new_session_is_refused_for_now(self) -> None:
        async with workshop(max_sessions=2) as (_, site, _):
            first, second = await site.session("2025-11-25"), await site.session("2025-11-25")
            answer = await site.post(initialize("2025-11-25"))
            assert answer.status == 503
            assert int(answer.headers["retry-after"]) > 0
            assert "mcp-session-id" not in answer.headers
            for session in (first, second):
                assert (await session.ask("ping")).status == 200
            await first.delete()
            assert (await site.post(initialize("2025-11-25"))).status == 200

    async def test_the_longest_idle_session_gives_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "EVICTABLE_SECONDS", 0.0)
        async with workshop(max_sessions=2) as (_, site, _):
            first, second = await site.session("2025-11-25"), await site.session("2025-11-25")
            await first.ask("ping")
            third = await site.session("2025-11-25")
            assert (await second.ask("ping")).status == 404
            assert (await first.ask("ping")).status == (await third.ask("ping")).status == 200

    async def test_a_session_that_works_does_not_give_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "EVICTABLE_SECONDS", 0.0)
        async with workshop(max_sessions=1) as (server, site, _):
            session = await site.session("2025-11-25")
            call = await session.call("tell_and_wait", token=1)
            await first_of(call)
            assert (await site.post(initialize("2025-11-25"))).status == 503
            server.go.set()
            assert text_of(await call.answer()) == "told"

    async def test_one_principal_cannot_take_the_room_of_others(self) -> None:
        server = Workshop(auth={"a": "alice", "b": "bob"}.get)
        async with workshop(server, max_sessions_each=2) as (_, site, _):
            site.usual = [("Authorization", "Bearer a")]
            for _ in range(2):
                await site.session("2025-11-25")
            assert (await site.post(initialize("2025-11-25"))).status == 503
            site.usual = [("Authorization", "Bearer b")]
            assert (await site.post(initialize("2025-11-25"))).status == 200

    @pytest.mark.attack("M10")
    async def test_without_authentication_one_address_cannot_take_the_room_of_others(self) -> None:
        async with workshop(max_sessions_each=2, max_sessions=4) as (_, site, _):
            for address, statuses in (("203.0.113.1", [200, 200, 503]), ("203.0.113.2", [200, 200, 503])):
                site.usual = [("X-Forwarded-For", address)]
                assert [(await site.post(initialize("2025-11-25"))).status for _ in statuses] == statuses


@pytest.mark.unheard("it measures memory")
async def test_an_idle_session_takes_no_more_than_6_kb() -> None:
    server = Server("idle")

    @server.tool
    async def tell(ctx: Context) -> str:
        await ctx.progress(1)
        return "told"

    async def ask(app: Any, message: dict[str, Any], *headers: tuple[bytes, bytes]) -> dict[bytes, bytes]:
        """One request without a network, so that only what the application keeps is counted."""
        import json

        sent: list[Any] = []
        body = json.dumps(message).encode()
        parts = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]

        async def receive() -> Any:
            return parts.pop(0)

        async def send(event: Any) -> None:
            sent.append(event)

        given = [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": given}
        await app(scope, receive, send)
        assert sent[0]["status"] in (200, 202), sent
        return dict(sent[0]["headers"])

    async def client(app: Any) -> None:
        opened = await ask(app, initialize("2025-11-25", elicitation={}, sampling={}, roots={"listChanged": True}))
        session = (b"mcp-session-id", opened[b"mcp-session-id"])
        await ask(app, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
        params = {"name": "tell", "arguments": {}}
        await ask(app, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, session)

    app = server.asgi(max_sessions_each=2000)
    for _ in range(20):
        await client(app)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(1000):
            await client(app)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    each = (after - before) / 1000
    assert each <= 6 * 1024, f"{each:.0f} bytes each"
    await app.close()


async def test_two_applications_over_one_file_serve_the_same_sessions(tmp_path: Path) -> None:
    """A request may reach either; a stream belongs to the one where it began."""
    store = str(tmp_path / "sessions.db")
    one, other = Workshop(), Workshop()
    async with (
        serving(one.asgi(store=store)) as here,
        serving(other.asgi(store=store)) as there,
        Site(here) as near,
        Site(there) as far,
    ):
        session = await near.session("2025-11-25")
        assert (await Session(far, "2025-11-25", session.id).ask("ping")).status == 200


async def test_a_session_that_every_replica_sees_rarely_lives_as_long_as_it_is_used(tmp_path: Path) -> None:
    now = [1_000_000.0]
    stores = [SqliteStore(tmp_path / "sessions.db", clock=lambda: now[0]) for _ in range(4)]
    id = ""
    for store in stores:
        async with workshop(store=store, session_idle=1800) as (_, site, _):
            session = Session(site, "2025-11-25", id) if id else await site.session("2025-11-25")
            id = session.id
            assert (await session.ask("ping")).status == 200
        now[0] += 1200
    for store in stores:
        await store.close()
