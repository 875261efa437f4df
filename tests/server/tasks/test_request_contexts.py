"""Context variables in tasks: those of the request that created the task, and of no other."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.middleware import Exchange, Proceed
from dovetail.server.tasks import request_contexts, running_places

_order: ContextVar[str] = ContextVar("order", default="none")


class Workshop:
    """A server whose middleware notes the order of each request, for its handlers to see."""

    def __init__(self) -> None:
        self.server = Server("workshop")
        self.free = asyncio.Event()

        async def note_order(exchange: Exchange, proceed: Proceed) -> Any:
            _order.set(str((exchange.params.get("arguments") or {}).get("order", "none")))
            return await proceed(exchange)

        self.server.use(note_order)

        @self.server.tool(task="optional")
        async def hold(order: str) -> str:
            await self.free.wait()
            return _order.get()

        @self.server.tool(task="optional")
        async def work(order: str, ctx: Context) -> str:
            return _order.get()

    async def seen_by_a_queued_task(self) -> str:
        """The order that a task sees which waited for the only place."""
        async with Client(self.server) as client:
            first = await client.start("hold", order="first")
            second = await client.start("work", order="second")
            self.free.set()
            assert (await first.result()).text == "first"
            return (await second.result()).text


@pytest.fixture(autouse=True)
def one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """One task runs at a time, so that the next one waits in the store."""
    monkeypatch.setattr(running_places, "MAX_RUNNING_TASKS", 1)


async def test_a_task_that_waited_has_the_context_of_its_own_request() -> None:
    assert await Workshop().seen_by_a_queued_task() == "second"


async def test_a_task_whose_context_was_forgotten_has_none_of_another_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_contexts, "MAX_CONTEXTS", 1)
    workshop = Workshop()
    async with Client(workshop.server) as client:
        first = await client.start("hold", order="first")
        second = await client.start("work", order="second")
        await client.start("work", order="third")
        workshop.free.set()
        assert (await first.result()).text == "first"
        assert (await second.result()).text == "none"


async def test_contexts_are_kept_no_longer_than_their_tasks() -> None:
    workshop = Workshop()
    async with Client(workshop.server) as client:
        first = await client.start("hold", order="first")
        second = await client.start("work", order="second")
        contexts = workshop.server._core.tasks._contexts  # pyright: ignore[reportPrivateUsage]
        assert len(contexts.handles) == 2
        await second.cancel()
        workshop.free.set()
        await first.result()
        assert contexts.handles == []
