"""A server that is killed in the middle of a call, and what its clients find when it is back, or at another replica."""

from __future__ import annotations

import asyncio

import pytest

from tests.faults.flooding import first_of, flooding, process_of
from tests.support.raw_http import SESSIONS, Session, Site, modern, modern_headers, text_of


@pytest.mark.parametrize("revision", SESSIONS)
async def test_with_a_store_the_session_goes_on_and_the_call_is_answered_with_an_error(revision: str) -> None:
    async with flooding(stored=True) as (flood, before):
        session = await before.session(revision)
        call = await session.call("tell_and_wait", token=1)
        told = await first_of(call)
        flood.kill(process_of(told))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
            await call.all()
        async with Site(flood.url) as site:
            after = Session(site, revision, session.id)
            again = await after.get(last=told.id)
            (answer,) = await again.messages()
            assert answer["error"]["code"] == -32603
            assert "has ended" in answer["error"]["message"]
            assert answer["error"]["data"] == {"dovetail/outcomeUnknown": True}
            once_more = await after.get(last=told.id)
            assert await once_more.messages() == [answer], "the same answer for who asks again"
            assert text_of(await (await after.call("big", size=3)).json()) == "xxx"


async def test_what_the_client_missed_before_the_kill_comes_before_the_error() -> None:
    async with flooding(stored=True) as (flood, before):
        session = await before.session("2025-11-25")
        call = await session.call("tell_ten_and_wait", token=1)
        told = await first_of(call)
        for number in range(2, 11):
            assert (await call.message())["params"]["progress"] == number
        flood.kill(process_of(told))
        async with Site(flood.url) as site:
            for _ in range(2):
                again = await Session(site, "2025-11-25", session.id).get(last=told.id)
                *missed, answer = await again.messages()
                assert [message["params"]["progress"] for message in missed] == list(range(2, 11))
                assert answer["error"]["code"] == -32603


async def test_two_concurrent_resumptions_get_one_response() -> None:
    async with flooding(stored=True) as (flood, before):
        session = await before.session("2025-11-25")
        told = await first_of(await session.call("tell_and_wait", token=1))
        flood.kill(process_of(told))
        async with Site(flood.url) as site:
            after = Session(site, "2025-11-25", session.id)
            streams = await asyncio.gather(*(after.get(last=told.id) for _ in range(4)))
            heard = [message for stream in streams for message in await stream.messages()]
            again = await (await after.get(last=told.id)).messages()
            assert len(again) == 1, again
            assert heard and all(message == again[0] for message in heard)


@pytest.mark.one_replica("replicas have a store")
async def test_without_a_store_the_client_is_told_to_begin_anew() -> None:
    async with flooding() as (flood, before):
        session = await before.session("2025-11-25")
        told = await first_of(await session.call("tell_and_wait", token=1))
        flood.kill(process_of(told))
        async with Site(flood.url) as site:
            after = Session(site, "2025-11-25", session.id)
            assert (await after.get(last=told.id)).status == 404
            assert (await after.ask("ping")).status == 404
            await site.session("2025-11-25")


async def test_on_the_envelope_era_the_call_is_lost_and_may_be_sent_again() -> None:
    message = modern("tools/call", meta={"progressToken": 1}, name="tell_and_wait", arguments={})
    async with flooding() as (flood, before):
        call = await before.post(message, modern_headers(message))
        flood.kill(process_of(await first_of(call)))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
            await call.all()
        async with Site(flood.url) as site:
            assert text_of(await (await site.call("big", size=3)).json()) == "xxx"
