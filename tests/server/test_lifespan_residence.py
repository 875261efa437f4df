"""The server's lifespan under an application that may have none: entered once, before anything is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Context, Server
from tests.support.http import serving
from tests.support.raw_http import Site, text_of


class Diary:
    """A lifespan that writes down what happens to it."""

    def __init__(self, fail: int = 0) -> None:
        self.entries: list[str] = []
        self.fail = fail

    @asynccontextmanager
    async def __call__(self, _: Server) -> AsyncIterator[str]:
        self.entries.append("enter")
        await asyncio.sleep(0.01)
        if self.fail:
            self.fail -= 1
            raise RuntimeError("not yet")
        try:
            yield "state"
        finally:
            self.entries.append("leave")


def make_server(diary: Diary) -> Server:
    server = Server("resident", lifespan=diary)

    @server.tool
    async def state(ctx: Context) -> str:
        return str(ctx.lifespan)

    return server


@pytest.mark.parametrize("lifespan", ["on", "off"])
async def test_it_is_entered_once_with_or_without_the_applications_own(lifespan: Any) -> None:
    diary = Diary()
    endpoint = make_server(diary).asgi()
    async with serving(endpoint, lifespan=lifespan) as url, Site(url) as site:
        assert diary.entries == (["enter"] if lifespan == "on" else [])
        answers = await asyncio.gather(*(site.call("state") for _ in range(5)))
        for answer in answers:
            assert text_of(await answer.json()) == "state"
        await site.session("2025-11-25")
        assert diary.entries == ["enter"]
    await endpoint.close()
    assert diary.entries == ["enter", "leave"]


async def test_mounted_below_another_application_it_needs_nothing_of_that() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    diary = Diary()
    endpoint = make_server(diary).asgi(path="/")
    app: Any = Starlette(routes=[Mount("/tools", app=endpoint)])
    async with serving(app) as url, Site(url, "/tools/") as site:
        assert text_of(await (await site.call("state")).json()) == "state"
    await endpoint.close()
    assert diary.entries == ["enter", "leave"]


async def test_one_that_fails_is_tried_again_with_the_next_request() -> None:
    diary = Diary(fail=1)
    endpoint = make_server(diary).asgi()
    async with serving(endpoint, lifespan="off") as url, Site(url) as site:
        first = await site.call("state")
        assert first.status == 500
        assert "not yet" not in str(await first.json())
        assert text_of(await (await site.call("state")).json()) == "state"
    await endpoint.close()
    assert diary.entries == ["enter", "enter", "leave"]


async def test_one_that_fails_under_a_lifespan_keeps_the_server_from_starting() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(event: Any) -> None:
        sent.append(event)

    await make_server(Diary(fail=1)).asgi()({"type": "lifespan"}, receive, send)
    assert sent == [{"type": "lifespan.startup.failed", "message": "RuntimeError: not yet"}]
