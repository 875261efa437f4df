"""Session ids and event ids that were guessed, changed, stolen or never given, and headers that try to be two."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.faults.flooding import first_of
from tests.support.raw_http import EVENTS, SESSIONS, Session, request, text_of
from tests.support.replica_group import REPLICAS
from tests.support.waiting import until
from tests.support.workshop import Workshop, workshop


async def refused(session: Session) -> set[int]:
    """What each way to use a session gets."""
    answers = [await session.ask("ping"), await session.get(), await session.get(last="0_1"), await session.delete()]
    return {answer.status for answer in answers}


class TestSessionIds:
    @pytest.mark.parametrize("revision", SESSIONS)
    async def test_a_changed_session_id_is_404(self, revision: str) -> None:
        async with workshop() as (_, site, _):
            session = await site.session(revision)
            id = session.id
            for forged in (
                id[:-1],
                id + "0",
                id.upper() + "A",
                id[::-1],
                "0" * 32,
                f"{id},{id}",
                f"../{id}",
                "session:",
                "%00",
            ):
                assert await refused(Session(site, revision, forged)) == {404}, forged
            assert (await session.ask("ping")).status == 200

    async def test_guessed_session_ids_find_nothing(self) -> None:
        chance = random.Random(1)
        async with workshop() as (_, site, endpoint):
            session = await site.session("2025-11-25")
            for _ in range(50):
                guess = "".join(chance.choices("0123456789abcdef", k=32))
                assert (await Session(site, "2025-11-25", guess).ask("ping")).status == 404
            assert {live.id for live in endpoint.live()} == {session.id}
            assert (await session.ask("ping")).status == 200

    @pytest.mark.parametrize("id", ["", " ", "a b", "x" * 10_000, "\x7f", "ü"])
    async def test_an_invalid_session_id_is_refused(self, id: str) -> None:
        async with workshop() as (_, site, _):
            answer = await Session(site, "2025-11-25", id).ask("ping")
            assert answer.status in (400, 404)

    async def test_a_stolen_one_is_worth_nothing_without_the_token_of_its_owner(self) -> None:
        server = Workshop(auth={"a": "alice", "m": "mallory"}.get)
        async with workshop(server) as (_, site, _):
            site.usual = [("Authorization", "Bearer a")]
            session = await site.session("2025-11-25", elicitation={})
            call = await session.call("ask", question="Pay?")
            question = await first_of(call)
            site.usual = [("Authorization", "Bearer m")]
            assert await refused(session) == {404}
            assert (await session.get(last=question.id)).status == 404
            consent = {"action": "accept", "content": {"value": "yes"}}
            forged = {"jsonrpc": "2.0", "id": question.message["id"], "result": consent}
            assert (await session.post(forged)).status == 404
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
            assert (await session.post(cancelled)).status == 404
            site.usual = [("Authorization", "Bearer a")]
            declined = {"jsonrpc": "2.0", "id": question.message["id"], "result": {"action": "decline"}}
            assert (await session.post(declined)).status == 202
            assert text_of(await call.answer()) == "decline: None"

    async def test_a_foreign_session_looks_like_a_missing_one(self) -> None:
        server = Workshop(auth={"a": "alice", "m": "mallory"}.get)
        async with workshop(server) as (_, site, _):
            site.usual = [("Authorization", "Bearer a")]
            session = await site.session("2025-11-25")
            site.usual = [("Authorization", "Bearer m")]
            message = request("ping", 1)
            theirs = await session.post(message)
            nobodys = await Session(site, "2025-11-25", "0" * 32).post(message)
            assert (theirs.status, await theirs.body()) == (nobodys.status, await nobodys.body())

    async def test_an_ended_one_stays_ended(self) -> None:
        async with workshop() as (_, site, _):
            session = await site.session("2025-11-25")
            await session.delete()
            assert await refused(session) == {404}


class TestEventIds:
    async def test_an_event_id_of_another_session_replays_nothing(self) -> None:
        async with workshop() as (server, site, endpoint):
            mine, theirs = await site.session("2025-11-25"), await site.session("2025-11-25")
            for session in (mine, theirs):
                stream = await session.get()
                server.notify_tools_changed()
                await first_of(stream)
                stream.line.abort()
            await until(lambda: not endpoint.busy)
            call = await mine.call("pace", token=1, count=3)
            last = (await first_of(call)).id
            assert (await theirs.get(last=last)).status == 400
            server.go.set()
            *_, answer = await call.messages()
            assert text_of(answer) == "paced"
            assert (await theirs.get(last=last)).status == 400, "nor when it has ended and is only stored"

    async def test_an_event_id_of_another_stream_replays_that_stream_only(self) -> None:
        async with workshop() as (server, site, _):
            session = await site.session("2025-11-25")
            first, second = await session.call("pace", token=1, count=3), await session.call("pace", token=2, count=3)
            one, two = (await first_of(first)).id, (await first_of(second)).id
            assert str(one).split("_")[0] != str(two).split("_")[0]
            server.go.set()
            for last, token in ((one, 1), (two, 2)):
                replayed = await (await session.get(last=last)).messages()
                assert {message["params"]["progressToken"] for message in replayed[:-1]} == {token}

    async def test_a_stream_that_was_forgotten_is_400_and_the_session_lives(self) -> None:
        from dovetail.server.http.http_session import MAX_ENDED

        async with workshop() as (server, site, _):
            server.go.set()
            session = await site.session("2025-11-25")
            ids: list[Any] = []
            for number in range((MAX_ENDED + 3) * max(1, REPLICAS)):  # each replica forgets the streams that it wrote
                events = [
                    event for event in await (await session.call("pace", token=number, count=2)).all() if event.data
                ]
                ids.append(events[0].id)
            assert (await session.get(last=ids[0])).status == 400
            assert len(await (await session.get(last=ids[-1])).messages()) == 3
            assert (await session.ask("ping")).status == 200

    @pytest.mark.parametrize(
        "last",
        ["0_1\r\nX: y", "0_1\n", "0_1\0", "0" * 5000 + "_1", "0_" + "9" * 400, "0_1, 0_2", "ffff_18446744073709551617"],
    )
    async def test_a_forged_event_id_is_refused(self, last: str) -> None:
        async with workshop() as (_, site, _):
            session = await site.session("2025-11-25")
            answer = await session.get(Last_Event_ID=last)
            if last in ("0_1\r\nX: y", "0_1\n"):
                assert answer.status in (200, 400), "a line break may end the header: what follows is another one"
            else:
                assert answer.status == 400
            assert (await session.ask("ping")).status == 200


class TestLineBreaks:
    """What a client puts into a header never becomes a line of its own in an answer."""

    @pytest.mark.parametrize(
        "name", ["Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Last-Event-ID", "Origin"]
    )
    @pytest.mark.parametrize("value", [b"a\rSet-Cookie: x=1", b"a\r Set-Cookie: x=1", b"a\0b"])
    async def test_a_bare_one_is_400(self, name: str, value: bytes) -> None:
        async with workshop() as (_, site, _):
            answer = await site.ask("GET", {name: value, "Accept": EVENTS})
            assert answer.status == 400
            assert "set-cookie" not in answer.headers

    async def test_a_line_break_in_base64_is_only_a_value(self) -> None:
        """The sentinel is how a line break may travel; it ends up in the comparison and nowhere else."""
        import base64

        hidden = base64.b64encode(b"echo\r\nSet-Cookie: x=1").decode()
        async with workshop() as (_, site, _):
            answer = await site.call("echo", {"Mcp-Name": f"=?base64?{hidden}?="}, text="hi")
            body = await answer.json()
            assert (answer.status, body["error"]["code"]) == (400, -32020)
            assert "set-cookie" not in answer.headers

    async def test_a_line_break_in_the_path_of_http_sse_is_no_event(self) -> None:
        async with workshop() as (_, site, _):
            stream = await site.ask("GET", {"Accept": EVENTS}, path="/sse?x=%0d%0adata:%20evil")
            first = await stream.next()
            assert first is not None and "evil" not in str(first.data)


async def test_two_requests_that_are_smuggled_as_one_are_refused() -> None:
    """A length and chunks at once are two ways to see where a request ends (RFC 9112, 6.1)."""
    async with workshop() as (_, site, _):
        line = await site.connect()
        headers = [("Content-Type", "application/json"), ("Content-Length", "4"), ("Transfer-Encoding", "chunked")]
        await line.send("POST", "/mcp", headers, b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(5):
            answer = await line.answer()
        assert answer.status == 400
