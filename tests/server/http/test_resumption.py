"""A stream that broke off is taken up where it broke: that stream and no other, nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.raw_http import EVENTS, SESSIONS, Answer, Event, Session, text_of
from tests.support.waiting import until
from tests.support.workshop import workshop

every_revision = pytest.mark.parametrize("revision", SESSIONS)
every_store = pytest.mark.parametrize("kept", ["memory", "sqlite"])


def store(kept: str, folder: Path) -> Any:
    return None if kept == "memory" else str(folder / "sessions.db")


def progress(events: list[Event]) -> list[float]:
    """How far the progress in some events came."""
    return [event.message["params"]["progress"] for event in events if event.data and "method" in event.message]


async def first_of(answer: Answer) -> Event:
    """The first event that holds a message."""
    while (event := await answer.next()) is not None:
        if event.data:
            return event
    raise AssertionError("the stream ended")


@every_store
@every_revision
async def test_what_came_while_nobody_read_is_read_later(revision: str, kept: str, tmp_path: Path) -> None:
    async with workshop(store=store(kept, tmp_path)) as (server, site, endpoint):
        session = await site.session(revision)
        call = await session.call("pace", token=1, count=50)
        last = (await first_of(call)).id
        call.line.abort()
        await until(lambda: not endpoint.busy)
        server.go.set()
        await until(lambda: server.ended)
        again = await session.get(last=last)
        assert (again.status, again.kind) == (200, EVENTS)
        events = [event for event in await again.all() if event.data]
        assert progress(events) == list(range(1, 51))
        assert text_of(events[-1].message) == "paced"


@every_revision
async def test_a_stream_can_be_read_again_from_every_event(revision: str) -> None:
    async with workshop() as (server, site, _):
        session = await site.session(revision)
        server.go.set()
        call = await session.call("pace", token=1, count=10)
        whole = [event for event in await call.all() if event.data]
        for seen, event in enumerate(whole):
            again = await session.get(last=event.id)
            rest = [event for event in await again.all() if event.data]
            assert [event.id for event in rest] == [event.id for event in whole[seen + 1 :]]


async def test_only_that_stream_is_replayed() -> None:
    """The server must not replay messages of another stream ("Resumability and Redelivery")."""
    async with workshop() as (server, site, _):
        session = await site.session("2025-11-25")
        one, other = await session.call("pace", token=1, count=5), await session.call("pace", token=2, count=5)
        last = (await first_of(one)).id
        await first_of(other)
        one.line.abort()
        other.line.abort()
        listening = await session.get()
        server.go.set()
        server.notify_tools_changed()
        await until(lambda: len(server.ended) == 2)
        events = await (await session.get(last=last)).messages()
        assert {message["params"]["progressToken"] for message in events if "method" in message} == {1}
        assert (await listening.message())["method"] == "notifications/tools/list_changed"


async def test_the_get_stream_is_resumed_too() -> None:
    async with workshop() as (server, site, endpoint):
        session = await site.session("2025-06-18")
        stream = await session.get()
        server.notify_tools_changed()
        last = (await first_of(stream)).id
        stream.line.abort()
        await until(lambda: not endpoint.busy)
        for tell in (server.notify_prompts_changed, server.notify_resources_changed):
            tell()
            await asyncio.sleep(0)
        again = await session.get(last=last)
        heard = [(await first_of(again)).message["method"] for _ in range(2)]
        assert heard == ["notifications/prompts/list_changed", "notifications/resources/list_changed"]


async def test_who_opens_the_get_stream_anew_without_an_id_hears_what_nobody_heard() -> None:
    async with workshop() as (server, site, endpoint):
        session = await site.session("2025-06-18")
        stream = await session.get()
        server.notify_tools_changed()
        await first_of(stream)
        stream.line.abort()
        await until(lambda: not endpoint.busy)
        server.notify_prompts_changed()
        again = await session.get()
        assert (await first_of(again)).message["method"] == "notifications/prompts/list_changed"


@every_store
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_nothing_is_lost_and_nothing_comes_twice_however_often_it_breaks(
    revision: str, kept: str, tmp_path: Path
) -> None:
    """Live events arrive while older ones are replayed: many breaks at random places, in several calls at once."""
    chance = random.Random(f"{revision} {kept}")
    count = 300

    async def follow(session: Session, token: int) -> tuple[list[float], list[str], int]:
        stream = await session.call("pace", token=token, count=count)
        heard: list[float] = []
        ids: list[str] = []
        last: str | None = None
        breaks = 0
        while True:
            for _ in range(chance.randrange(1, 25)):
                event = await stream.next()
                assert event is not None, "the stream ended without an answer"
                last = event.id or last
                if not event.data:
                    continue
                assert event.id is not None
                ids.append(event.id)
                message = event.message
                if "method" not in message:
                    assert text_of(message) == "paced"
                    return heard, ids, breaks
                assert message["params"]["progressToken"] == token
                heard.append(message["params"]["progress"])
            stream.line.abort()
            breaks += 1
            stream = await session.get(last=last)

    async with workshop(store=store(kept, tmp_path)) as (server, site, _):
        session = await site.session(revision)
        following = [asyncio.create_task(follow(session, token)) for token in range(1, 5)]
        await until(lambda: len(server.began) == 4)
        server.go.set()
        for heard, ids, breaks in await asyncio.gather(*following):
            assert heard == [0.5, *range(1, count + 1)]
            assert len(ids) == len(set(ids))
            assert breaks > 5


@pytest.mark.one_replica("tests/server/http/test_shared_sessions.py has this across replicas")
async def test_a_client_that_comes_back_before_its_old_connection_is_seen_to_be_dead_is_served() -> None:
    async with workshop() as (server, site, _):
        session = await site.session("2025-11-25")
        old = await session.call("pace", token=1, count=20)
        last = (await first_of(old)).id
        new = await session.get(last=last)
        server.go.set()
        events = [event for event in await new.all() if event.data]
        assert progress(events) == list(range(1, 21))
        assert [event for event in await old.all() if event.data] == [], "no message is sent on two connections"


class TestAwayForLong:
    async def test_many_small_messages_wait_for_a_client_that_is_away(self) -> None:
        async with workshop() as (server, site, endpoint):
            session = await site.session("2025-11-25")
            call = await session.call("pace", token=1, count=2000)
            last = (await first_of(call)).id
            call.line.abort()
            await until(lambda: not endpoint.busy)
            server.go.set()
            await until(lambda: server.ended)
            events = [event for event in await (await session.get(last=last)).all() if event.data]
            assert progress(events) == list(range(1, 2001))
            assert text_of(events[-1].message) == "paced"


class TestIdsThatCannotBe:
    @pytest.mark.parametrize(
        "last",
        ["", "garbage", "0", "_", "0_", "_1", "0_999", "ffffffffffff_1", "0_-1", "0_1_2", "../x_1", "0_1 ", "１_１"],
    )
    async def test_an_id_that_was_never_given_is_400(self, last: str) -> None:
        async with workshop() as (_, site, _):
            session = await site.session("2025-11-25")
            answer = await session.get(Last_Event_ID=last.encode())
            if last.strip() == "0_1":
                assert answer.status == 200
            else:
                assert answer.status == 400
                assert "Last-Event-ID" in (await answer.error())["message"]

    async def test_an_id_of_another_session_is_400(self) -> None:
        async with workshop() as (server, site, _):
            mine, theirs = await site.session("2025-11-25"), await site.session("2025-11-25")
            call = await mine.call("pace", token=1, count=5)
            last = (await first_of(call)).id
            answer = await theirs.get(last=last)
            assert answer.status == 400
            server.go.set()
            assert len([event for event in await call.all() if event.data]) == 6

    async def test_a_position_that_is_still_to_come_is_400(self) -> None:
        async with workshop() as (_, site, _):
            session = await site.session("2025-11-25")
            call = await session.call("pace", token=1, count=5)
            stream, position = str((await first_of(call)).id).split("_")
            assert (await session.get(last=f"{stream}_{int(position) + 1}")).status == 400


class TestPolling:
    """2025-11-25 alone: a first event without data, and a server that lets the connection go."""

    async def test_a_stream_begins_with_an_event_to_come_back_to(self) -> None:
        async with workshop() as (_, site, _):
            session = await site.session("2025-11-25")
            for stream in (await session.call("tell_and_wait", token=1), await session.get()):
                first = await stream.next()
                assert first is not None
                assert (first.data, first.retry) == ("", None)
                assert first.id

    @pytest.mark.parametrize("revision", SESSIONS[:2])
    async def test_earlier_revisions_have_no_such_event(self, revision: str) -> None:
        async with workshop(poll_seconds=0.05) as (server, site, _):
            session = await site.session(revision)
            call = await session.call("tell_and_wait", token=1)
            first = await call.next()
            assert first is not None and first.data
            await asyncio.sleep(0.1)
            server.go.set()
            assert text_of(await call.answer()) == "told", "nor are their connections let go"

    async def test_the_server_lets_the_connection_go_and_says_when_to_come_back(self) -> None:
        async with workshop(poll_seconds=0.05) as (server, site, _):
            session = await site.session("2025-11-25")
            call = await session.call("tell_and_wait", token=1)
            events = await call.all()
            assert events[-1].data == "" and events[-1].retry is not None and events[-1].retry > 0
            assert server.ended == [], "the call goes on"
            server.go.set()
            await until(lambda: server.ended)
            again = await session.get(last=events[-1].id)
            assert text_of(await again.answer()) == "told"

    async def test_a_handler_may_let_the_connection_go_by_itself(self) -> None:
        async with workshop() as (server, site, _):
            session = await site.session("2025-11-25")
            events = await (await session.call("let_go")).all()
            assert (events[-1].data, events[-1].retry) == ("", 250)
            server.go.set()
            again = await session.get(last=events[-1].id)
            assert text_of(await again.answer()) == "came back"

    @pytest.mark.parametrize("revision", SESSIONS[:2])
    async def test_on_earlier_revisions_that_does_nothing(self, revision: str) -> None:
        async with workshop() as (server, site, _):
            session = await site.session(revision)
            asking = asyncio.create_task(session.call("let_go"))
            await until(lambda: server.began)
            server.go.set()
            assert text_of(await (await asking).answer()) == "came back"

    async def test_polling_over_and_over_loses_nothing(self) -> None:
        async with workshop(poll_seconds=0.01) as (server, site, _):
            session = await site.session("2025-11-25")
            stream = await session.call("pace", token=1, count=400)
            await until(lambda: server.began)
            server.go.set()
            got: list[Event] = []
            last: str | None = None
            while not (got and "result" in got[-1].message):
                for event in await stream.all():
                    last = event.id or last
                    if event.data:
                        got.append(event)
                stream = await session.get(last=last)
            assert progress(got) == [0.5, *range(1, 401)]


async def test_a_call_without_a_client_ends_and_then_the_session_may_end_too() -> None:
    """An abandoned stream must not keep its session for ever."""
    async with workshop(session_idle=0.3) as (server, site, endpoint):
        session = await site.session("2025-11-25")
        call = await session.call("tell_and_wait", token=1)
        await first_of(call)
        call.line.abort()
        await until(lambda: not endpoint.busy)
        server.go.set()
        await until(lambda: server.ended)
        async with asyncio.timeout(5):
            await until(lambda: endpoint.health()["sessions"] == 0)


@every_revision
async def test_with_streams_always_an_answer_can_be_taken_up_from_the_first_moment(revision: str) -> None:
    async with workshop(always_stream=True) as (server, site, _):
        session = await site.session(revision)
        server.go.set()
        answer = await session.call("pace", count=0)
        assert (answer.status, answer.kind) == (200, EVENTS)
        events = await answer.all()
        # Only 2025-11-25 begins with an event that says where to come back to before there is anything to say.
        assert [bool(event.data) for event in events] == ([False, True] if revision == SESSIONS[-1] else [True])
        if len(events) == 2:
            again = await session.get(last=events[0].id)
            assert [event.data for event in await again.all() if event.data] == [events[1].data]
