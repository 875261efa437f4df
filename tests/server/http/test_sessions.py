"""Sessions of 2025-03-26, 2025-06-18 and 2025-11-25: how they begin, what runs in them, and how they end."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from dovetail.transports.http.server import event_stream
from tests.support.raw_http import EVENTS, JSON, SESSIONS, Answer, Session, initialize, notification, request, text_of
from tests.support.replica_group import REPLICAS
from tests.support.waiting import until
from tests.support.workshop import Workshop, workshop

every_revision = pytest.mark.parametrize("revision", SESSIONS)
FORM = {"elicitation": {}}


def accepted(question: dict[str, Any], value: str) -> dict[str, Any]:
    """The answer of a client to a question."""
    return {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"value": value}}}


class TestBeginning:
    @every_revision
    async def test_the_answer_to_initialize_names_the_session(self, revision: str) -> None:
        async with workshop() as (_, site, _):
            answer = await site.post(initialize(revision))
            assert (answer.status, answer.kind) == (200, JSON)
            assert re.fullmatch(r"[\x21-\x7e]{22,}", answer.headers["mcp-session-id"])
            assert (await answer.json())["result"]["protocolVersion"] == revision

    async def test_ids_are_never_the_same(self) -> None:
        async with workshop() as (_, site, _):
            assert len({(await site.session(SESSIONS[2])).id for _ in range(20)}) == 20

    async def test_a_handshake_that_fails_begins_no_session(self) -> None:
        async with workshop() as (_, site, endpoint):
            answer = await site.post(request("initialize", protocolVersion=7))
            assert "error" in await answer.json()
            assert "mcp-session-id" not in answer.headers
            assert endpoint.health()["sessions"] == 0

    @every_revision
    async def test_a_request_without_the_header_is_400_and_with_an_unknown_id_404(self, revision: str) -> None:
        async with workshop() as (_, site, _):
            session = await site.session(revision)
            named = {"MCP-Protocol-Version": revision}
            for method in ("POST", "GET", "DELETE"):
                for headers, status in (({}, 400), ({"Mcp-Session-Id": "f" * 32}, 404)):
                    given = {**named, **headers}
                    if method == "POST":
                        answer = await site.post(request("tools/list"), given)
                    else:
                        answer = await site.ask(method, {**given, "Accept": EVENTS})
                    assert answer.status == status
                    assert "error" in await answer.json()
            assert (await session.ask("ping")).status == 200

    @every_revision
    async def test_notifications_and_responses_are_202_without_a_body(self, revision: str) -> None:
        async with workshop() as (_, site, _):
            session = await site.session(revision)
            for message in (
                notification("notifications/roots/list_changed"),
                notification("nobody/knows/this"),
                {"jsonrpc": "2.0", "id": 99, "result": {}},
                {"jsonrpc": "2.0", "id": 99, "error": {"code": -1, "message": "no"}},
            ):
                answer = await session.post(message)
                assert (answer.status, await answer.body()) == (202, b"")

    async def test_another_handshake_begins_another_session(self) -> None:
        async with workshop() as (_, site, _):
            first = await site.session("2025-11-25")
            answer = await site.post(initialize("2025-06-18"), {"Mcp-Session-Id": first.id})
            assert answer.headers["mcp-session-id"] != first.id
            assert (await first.ask("ping")).status == 200


class TestEnding:
    @every_revision
    async def test_delete_ends_a_session_and_its_id_is_404_from_then_on(self, revision: str) -> None:
        async with workshop() as (_, site, _):
            session = await site.session(revision)
            assert (await session.delete()).status in (200, 204)
            for answer in (await session.ask("ping"), await session.get(), await session.delete()):
                assert answer.status == 404

    async def test_delete_stops_the_calls_and_ends_the_streams(self) -> None:
        async with workshop() as (server, site, _):
            session = await site.session("2025-11-25")
            listening = await session.get()
            told = await session.call("tell_and_wait", token=1)
            await told.message()
            await session.delete()
            await until(lambda: server.ended == ["tell_and_wait"])
            assert await told.messages() == [], "a stopped call is not answered"
            assert await listening.messages() == []

    async def test_one_session_ends_and_the_others_live(self) -> None:
        async with workshop() as (_, site, _):
            one, other = await site.session("2025-11-25"), await site.session("2025-11-25")
            await one.delete()
            assert (await other.ask("ping")).status == 200


class TestStreams:
    @every_revision
    async def test_a_short_call_is_answered_with_json(self, revision: str) -> None:
        async with workshop() as (_, site, _):
            answer = await (await site.session(revision)).call("echo", text="hi")
            assert (answer.status, answer.kind) == (200, JSON)
            assert text_of(await answer.json()) == "hi"

    @every_revision
    async def test_a_call_that_tells_is_answered_with_events_that_have_ids(self, revision: str) -> None:
        async with workshop() as (_, site, _):
            answer = await (await site.session(revision)).call("tell", token="t", count=3)
            assert (answer.status, answer.kind) == (200, EVENTS)
            # A word to nginx, which it does not pass on.
            assert answer.headers.get("x-accel-buffering") == (None if REPLICAS else "no")
            events = [event for event in await answer.all() if event.data]
            assert [event.message["params"]["progress"] for event in events[:-1]] == [1, 2, 3]
            assert text_of(events[-1].message) == "told"
            assert len({event.id for event in events}) == 4 and None not in {event.id for event in events}

    async def test_who_takes_only_events_gets_events(self) -> None:
        async with workshop() as (_, site, _):
            session = await site.session("2025-11-25")
            answer = await session.post(request("tools/list"), Accept=EVENTS)
            assert answer.kind == EVENTS
            assert "tools" in (await answer.answer())["result"]

    @every_revision
    async def test_get_opens_a_stream_for_what_belongs_to_no_request(self, revision: str) -> None:
        async with workshop() as (server, site, _):
            session = await site.session(revision)
            stream = await session.get()
            assert (stream.status, stream.kind) == (200, EVENTS)
            server.notify_tools_changed()
            assert (await stream.message())["method"] == "notifications/tools/list_changed"

    async def test_what_is_said_before_a_stream_is_opened_waits_for_it(self) -> None:
        async with workshop() as (server, site, _):
            session = await site.session("2025-06-18")
            server.notify_tools_changed()
            await asyncio.sleep(0)
            stream = await session.get()
            assert (await stream.message())["method"] == "notifications/tools/list_changed"

    async def test_watched_resources_are_told_on_the_get_stream(self) -> None:
        async with workshop() as (server, site, _):
            session = await site.session("2025-11-25")
            stream = await session.get()
            assert "result" in await (await session.ask("resources/subscribe", uri="config://app")).json()
            server.notify_resource_updated("config://app")
            assert (await stream.message())["params"] == {"uri": "config://app"}

    async def test_silence_is_filled_with_comments(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(event_stream, "KEEP_ALIVE_SECONDS", 0.02)
        async with workshop() as (_, site, _):
            stream = await (await site.session("2025-06-18")).get()
            for _ in range(2):
                event = await stream.next(comments=True)
                assert event is not None and event.comment is not None

    async def test_answers_never_come_on_the_get_stream(self) -> None:
        async with workshop() as (server, site, _):
            session = await site.session("2025-11-25")
            stream = await session.get()
            await (await session.call("tell", token=1, count=3)).messages()
            server.notify_tools_changed()
            assert (await stream.message())["method"] == "notifications/tools/list_changed"

    async def test_of_several_get_streams_each_message_comes_on_exactly_one(self) -> None:
        """A client may have several; no message is broadcast ("Multiple Connections")."""
        async with workshop() as (server, site, _):
            session = await site.session("2025-06-18")
            opened = [await session.get() for _ in range(3)]
            heard: list[list[str]] = [[] for _ in opened]

            async def hear(stream: Answer, into: list[str]) -> None:
                while (event := await stream.next()) is not None:
                    into.append(str(event.id))

            hearing = [asyncio.create_task(hear(*pair)) for pair in zip(opened, heard, strict=True)]
            for number in range(20):
                server.notify_tools_changed()
                await until(lambda number=number: sum(map(len, heard)) > number)
            everything = [id for ids in heard for id in ids]
            assert len(everything) == len(set(everything)) == 20
            for task in hearing:
                task.cancel()

    @pytest.mark.one_replica("the stream at another replica ends, and its client reconnects")
    async def test_when_one_get_stream_goes_another_gets_what_comes_then_and_nothing_again(self) -> None:
        async with workshop() as (server, site, endpoint):
            session = await site.session("2025-06-18")
            older, newer = await session.get(), await session.get()
            seen: list[str | None] = []
            for _ in range(3):
                server.notify_tools_changed()
                event = await newer.next()
                assert event is not None
                seen.append(event.id)
            newer.line.abort()
            await until(lambda: sum(live.busy for live in endpoint.live()) == 1)
            server.notify_prompts_changed()
            event = await older.next()
            assert event is not None and event.id not in seen
            assert event.message["method"] == "notifications/prompts/list_changed"

    async def test_sessions_do_not_hear_each_other(self) -> None:
        async with workshop() as (_, site, _):
            one, other = await site.session("2025-11-25"), await site.session("2025-11-25")
            mine, theirs = await one.call("tell", token=1, count=2), await other.call("tell", token=2, count=2)
            assert {message["params"]["progressToken"] for message in (await mine.messages())[:-1]} == {1}
            assert {message["params"]["progressToken"] for message in (await theirs.messages())[:-1]} == {2}

    @pytest.mark.one_replica("the limit is that of each replica")
    async def test_only_so_many_streams_are_open_at_once(self) -> None:
        from dovetail.server.http.router import MAX_STREAMS

        async with workshop() as (_, site, _):
            session = await site.session("2025-11-25")
            for _ in range(MAX_STREAMS):
                assert (await session.get()).status == 200
            refused = await session.get()
            assert refused.status == 429
            assert (await session.ask("ping")).status == 200


class TestQuestions:
    """Roots, sampling and elicitation: on the stream of the call that asks, never on the GET stream."""

    @pytest.mark.parametrize("revision", SESSIONS[1:])
    async def test_a_question_comes_on_the_stream_of_its_call(self, revision: str) -> None:
        async with workshop() as (server, site, _):
            session = await site.session(revision, **FORM)
            elsewhere, other = await session.get(), await session.call("tell_and_wait", token=1)
            await other.message()
            call = await session.call("ask", question="When?")
            question = await call.message()
            assert (question["method"], question["params"]["message"]) == ("elicitation/create", "When?")
            assert (await session.post(accepted(question, "now"))).status == 202
            assert text_of(await call.answer()) == "accept: now"
            server.go.set()
            assert text_of(await other.answer()) == "told"
            server.notify_tools_changed()
            assert (await elsewhere.message())["method"] == "notifications/tools/list_changed"

    async def test_each_call_gets_its_own_question_and_its_own_answer(self) -> None:
        async with workshop() as (_, site, _):
            session = await site.session("2025-11-25", **FORM)
            calls = {name: await session.call("ask", question=name) for name in ("a", "b", "c")}
            questions = {name: await call.message() for name, call in calls.items()}
            assert {name: question["params"]["message"] for name, question in questions.items()} == {
                name: name for name in calls
            }
            for name in reversed(calls):
                await session.post(accepted(questions[name], name.upper()))
            for name, call in calls.items():
                assert text_of(await call.answer()) == f"accept: {name.upper()}"

    async def test_another_session_cannot_answer(self) -> None:
        async with workshop() as (_, site, _):
            session, stranger = await site.session("2025-11-25", **FORM), await site.session("2025-11-25", **FORM)
            call = await session.call("ask", question="Who?")
            question = await call.message()
            assert (await stranger.post(accepted(question, "stranger"))).status == 202
            await session.post(accepted(question, "owner"))
            assert text_of(await call.answer()) == "accept: owner"

    async def test_a_question_that_is_asked_while_nobody_reads_waits_for_the_client_to_come_back(self) -> None:
        async with workshop() as (_, site, _):
            session = await site.session("2025-11-25", **FORM)
            call = await session.call("ask", question="When?")
            priming = await call.next()
            assert priming is not None and priming.data == ""
            call.line.abort()
            again = await session.get(last=priming.id)
            question = await again.message()
            await session.post(accepted(question, "later"))
            assert text_of(await again.answer()) == "accept: later"


class TestDisconnecting:
    """A connection that breaks is not a cancelled request."""

    @every_revision
    async def test_the_call_goes_on(self, revision: str) -> None:
        async with workshop() as (server, site, _):
            session = await site.session(revision)
            call = await session.call("tell_and_wait", token=1)
            await call.message()
            call.line.abort()
            await session.ask("ping")
            assert server.ended == []
            server.go.set()
            await until(lambda: server.ended == ["tell_and_wait"])

    @every_revision
    async def test_cancelling_is_said(self, revision: str) -> None:
        async with workshop() as (server, site, _):
            session = await site.session(revision)
            message = request("tools/call", 17, name="tell_and_wait", arguments={}, _meta={"progressToken": 1})
            call = await session.post(message)
            await call.message()
            await session.post(notification("notifications/cancelled", requestId=17))
            await until(lambda: server.ended == ["tell_and_wait"])
            assert await call.messages() == [], "nothing more is sent, and the stream ends"

    async def test_another_session_cannot_cancel(self) -> None:
        async with workshop() as (server, site, _):
            session, stranger = await site.session("2025-11-25"), await site.session("2025-11-25")
            message = request("tools/call", 17, name="tell_and_wait", arguments={}, _meta={"progressToken": 1})
            call = await session.post(message)
            await call.message()
            await stranger.post(notification("notifications/cancelled", requestId=17))
            await stranger.ask("ping")
            assert server.ended == []
            server.go.set()
            assert text_of(await call.answer()) == "told"


@pytest.mark.one_replica("each replica knows the requests that it serves")
async def test_an_id_that_is_in_flight_is_refused_and_the_first_call_is_not_disturbed() -> None:
    async with workshop() as (server, site, _):
        session = await site.session("2025-11-25")
        message = request("tools/call", 17, name="tell_and_wait", arguments={}, _meta={"progressToken": 1})
        call = await session.post(message)
        await call.message()
        second = await session.post(message)
        assert (second.status, (await second.error())["code"]) == (200, -32600)
        server.go.set()
        assert text_of(await call.answer()) == "told"


class TestBatches:
    """2025-03-26 alone has them."""

    async def test_the_answers_come_together(self) -> None:
        async with workshop() as (_, site, _):
            session = await site.session("2025-03-26")
            answer = await session.post(
                [request("ping", 1), notification("x"), request("tools/list", "2"), request("nothing", 3)]
            )
            assert answer.status == 200
            answers = {one["id"]: one for one in await answer.json()}
            assert set(answers) == {1, "2", 3}
            assert answers[3]["error"]["code"] == -32601

    async def test_what_is_told_meanwhile_comes_as_events_before_them(self) -> None:
        async with workshop() as (_, site, _):
            session = await site.session("2025-03-26")
            calls = [
                request("tools/call", n, name="tell", arguments={"count": 2}, _meta={"progressToken": n})
                for n in (1, 2)
            ]
            *told, answers = await (await session.post(calls)).messages()
            assert len(told) == 4
            together: Any = answers
            assert isinstance(together, list)
            assert {answer["id"] for answer in together} == {1, 2}

    async def test_notifications_or_responses_alone_are_202(self) -> None:
        async with workshop() as (_, site, _):
            session = await site.session("2025-03-26")
            for batch in (
                [notification("a"), notification("b")],
                [{"jsonrpc": "2.0", "id": 7, "result": {}}, {"jsonrpc": "2.0", "id": 8, "result": {}}],
            ):
                answer = await session.post(batch)
                assert (answer.status, await answer.body()) == (202, b"")

    async def test_initialize_is_never_part_of_one(self) -> None:
        async with workshop() as (_, site, _):
            answer = await site.post([initialize("2025-03-26")])
            assert (answer.status, (await answer.error())["code"]) == (400, -32600)

    @pytest.mark.parametrize("revision", SESSIONS[1:])
    async def test_later_revisions_refuse_them(self, revision: str) -> None:
        async with workshop() as (_, site, _):
            session = await site.session(revision)
            answer = await session.post([request("ping"), request("ping")])
            assert (answer.status, (await answer.error())["code"]) == (400, -32600)


class TestPrincipals:
    """A session belongs to who began it; to all others it is not there."""

    async def test_a_foreign_principal_gets_404(self) -> None:
        server = Workshop(auth={"a": "alice", "b": "bob"}.get)
        async with workshop(server) as (_, site, _):
            site.usual = [("Authorization", "Bearer a")]
            session = await site.session("2025-11-25")
            assert text_of(await (await session.call("who")).json()) == "alice 2025-11-25"
            site.usual = [("Authorization", "Bearer b")]
            for answer in (await session.ask("ping"), await session.get(), await session.delete()):
                assert answer.status == 404
            site.usual = []
            assert (await session.ask("ping")).status == 401
            site.usual = [("Authorization", "Bearer a")]
            assert (await session.ask("ping")).status == 200

    async def test_two_tokens_of_one_principal_share_its_sessions(self) -> None:
        server = Workshop(auth={"old": "alice", "new": "alice"}.get)
        async with workshop(server) as (_, site, _):
            site.usual = [("Authorization", "Bearer old")]
            session = await site.session("2025-11-25")
            site.usual = [("Authorization", "Bearer new")]
            assert (await session.ask("ping")).status == 200


@pytest.mark.one_replica("tests/server/http/test_shared_sessions.py has this across replicas")
async def test_a_session_that_never_was_confirmed_is_served_all_the_same_but_told_nothing() -> None:
    async with workshop() as (server, site, _):
        session = await Session(site, "2025-11-25").begin(ready=False)
        stream = await session.get()
        server.notify_tools_changed()
        assert (await session.ask("tools/list")).status == 200
        await session.post(notification("notifications/initialized"))
        server.notify_prompts_changed()
        assert (await stream.message())["method"] == "notifications/prompts/list_changed"
