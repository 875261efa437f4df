"""A handler that lets its connection go, and sessions that end while somebody listens."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from dovetail import Context
from tests.support.raw_http import JSON, Session, text_of
from tests.support.waiting import until
from tests.support.workshop import Workshop, workshop


class Poller(Workshop):
    """A workshop with a tool that closes its stream before it has said anything."""

    def __init__(self) -> None:
        super().__init__()
        self.tool(self.long)

    async def long(self, ctx: Context) -> str:
        ctx.close_stream(retry=0.25)
        self.began.append("long")
        await self.go.wait()
        self.ended.append("long")
        return "done"


async def test_a_stream_that_has_not_begun_begins_and_is_let_go() -> None:
    async with workshop(Poller()) as (server, site, _):
        session = await site.session("2025-11-25")
        first, *others = await (await session.call("long")).all()
        assert (first.data, bool(first.id)) == ("", True), (
            "2025-11-25: the server SHOULD send an event ID and empty data"
        )
        assert [(event.data, event.retry) for event in others] == [("", 250)]
        assert server.ended == [], "the call goes on"
        server.go.set()
        again = await session.get(last=others[-1].id)
        assert text_of(await again.answer()) == "done"


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
async def test_elsewhere_nothing_happens(revision: str) -> None:
    async with workshop(Poller()) as (server, site, _):
        session = await site.session(revision)
        call = asyncio.create_task(session.call("long"))
        await until(lambda: server.began)
        server.go.set()
        answer = await call
        assert answer.kind == JSON and text_of(await answer.json()) == "done"


async def test_nothing_is_left_of_a_session_that_ends_while_somebody_listens() -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, problem: problems.append(problem))
    async with workshop() as (_, site, _):
        session: Session = await site.session("2025-11-25")
        listening = await session.get()
        assert (await session.delete()).status in (200, 204)
        assert await listening.messages() == []
        gc.collect()  # a task that nobody holds is destroyed, which the loop complains about
        assert problems == []
