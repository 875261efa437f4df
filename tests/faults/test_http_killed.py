"""A server that is killed in the middle of a call, and what its clients find when it is back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.http import serving_program
from tests.support.raw_http import SESSIONS, Answer, Event, Session, Site, modern, modern_headers, text_of

FLOOD = Path(__file__).parent / "servers" / "http_flood.py"


async def first_of(answer: Answer) -> Event:
    while (event := await answer.next()) is not None:
        if event.data:
            return event
    raise AssertionError("the stream ended")


@pytest.mark.parametrize("revision", SESSIONS)
async def test_with_a_store_the_session_goes_on_and_the_call_is_answered_with_an_error(
    revision: str, tmp_path: Path
) -> None:
    store = tmp_path / "sessions.db"
    with serving_program(FLOOD, store) as program:
        async with Site(program.url) as site:
            session = await site.session(revision)
            call = await session.call("tell_and_wait", token=1)
            last = (await first_of(call)).id
            program.kill()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
                await call.all()
    with serving_program(FLOOD, store) as program:
        async with Site(program.url) as site:
            after = Session(site, revision, session.id)
            again = await after.get(last=last)
            (answer,) = await again.messages()
            assert answer["error"]["code"] == -32603
            assert "restart" in answer["error"]["message"]
            once_more = await after.get(last=last)
            assert await once_more.messages() == [answer], "the same answer for who asks again"
            assert text_of(await (await after.call("big", size=3)).json()) == "xxx"


async def test_what_the_client_missed_before_the_kill_comes_before_the_error(tmp_path: Path) -> None:
    store = tmp_path / "sessions.db"
    with serving_program(FLOOD, store) as program:
        async with Site(program.url) as site:
            session = await site.session("2025-11-25")
            call = await session.call("tell_ten_and_wait", token=1)
            last = (await first_of(call)).id
            for number in range(2, 11):
                assert (await call.message())["params"]["progress"] == number
            program.kill()
    with serving_program(FLOOD, store) as program:
        async with Site(program.url) as site:
            for _ in range(2):
                again = await Session(site, "2025-11-25", session.id).get(last=last)
                *told, answer = await again.messages()
                assert [message["params"]["progress"] for message in told] == list(range(2, 11))
                assert answer["error"]["code"] == -32603


async def test_two_concurrent_resumptions_get_one_response(tmp_path: Path) -> None:
    store = tmp_path / "sessions.db"
    with serving_program(FLOOD, store) as program:
        async with Site(program.url) as site:
            session = await site.session("2025-11-25")
            last = (await first_of(await session.call("tell_and_wait", token=1))).id
            program.kill()
    with serving_program(FLOOD, store) as program:
        async with Site(program.url) as site:
            after = Session(site, "2025-11-25", session.id)
            streams = await asyncio.gather(*(after.get(last=last) for _ in range(4)))
            heard = [message for stream in streams for message in await stream.messages()]
            again = await (await after.get(last=last)).messages()
            assert len(again) == 1, again
            assert heard and all(message == again[0] for message in heard)


async def test_without_a_store_the_client_is_told_to_begin_anew() -> None:
    with serving_program(FLOOD) as program:
        async with Site(program.url) as site:
            session = await site.session("2025-11-25")
            last = (await first_of(await session.call("tell_and_wait", token=1))).id
            program.kill()
    with serving_program(FLOOD) as program:
        async with Site(program.url) as site:
            after = Session(site, "2025-11-25", session.id)
            assert (await after.get(last=last)).status == 404
            assert (await after.ask("ping")).status == 404
            await site.session("2025-11-25")


async def test_on_the_envelope_era_the_call_is_lost_and_may_be_sent_again() -> None:
    message = modern("tools/call", meta={"progressToken": 1}, name="tell_and_wait", arguments={})
    with serving_program(FLOOD) as program:
        async with Site(program.url) as site:
            call = await site.post(message, modern_headers(message))
            await first_of(call)
            program.kill()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
                await call.all()
    with serving_program(FLOOD) as program:
        async with Site(program.url) as site:
            assert text_of(await (await site.call("big", size=3)).json()) == "xxx"
