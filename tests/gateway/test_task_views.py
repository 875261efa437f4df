"""Tasks at the views of a gateway that share a store: each view runs, shows and lists its own, and no others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dovetail import Client, Context, Gateway, RemoteError, Server
from dovetail.server.tasks import running_places
from dovetail.server.tasks import tasks as tasks_module
from tests.gateway.served import ServedGateway, served, tokens
from tests.support.replica_clients import OpenStore

REVISION = "2025-11-25"


class Shop:
    """A server whose tool works until a test lets it end, and notes every order that it gets."""

    def __init__(self, name: str, tool: str = "run") -> None:
        self.server = Server(name, revisions=[REVISION])
        self.orders: list[str] = []
        self.open = asyncio.Event()

        async def run(order: str) -> str:
            self.orders.append(order)
            await self.open.wait()
            return f"{name} did {order}"

        async def ask(order: str, ctx: Context) -> str:
            self.orders.append(order)
            answer = await ctx.elicit("Sure?", bool)
            return f"{name} asked about {order}: {answer.data}"

        self.server.tool(run, name=tool, task="optional")
        self.server.tool(ask, task="optional")


class Views:
    """Two servers with tools of the same names, and the gateways that serve them from one store."""

    def __init__(self, store: OpenStore) -> None:
        self.one, self.two = Shop("one"), Shop("two")
        self._store = store

    @contextlib.asynccontextmanager
    async def gateway(self, **servers: Server) -> AsyncIterator[ServedGateway]:
        """One more gateway over the store."""
        gateway = Gateway(servers or {"one": self.one.server, "two": self.two.server}, auth=tokens(ann=[]))
        opened = self._store()
        try:
            async with served(gateway, store=opened) as at:
                yield at
        finally:
            await opened.close()


@pytest.fixture
def views(store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> Views:
    """Views that run one task of a client each, so that the next one waits in the store; they look there often."""
    monkeypatch.setattr(running_places, "MAX_RUNNING_TASKS_EACH", 1)
    monkeypatch.setattr(tasks_module, "WATCH_SECONDS", 0.05)
    return Views(store)


def client_of(at: ServedGateway, path: str, **options: Any) -> Client:
    return at.client("ann", path, revision=REVISION, **options)


async def use_the_queue(client: Client, shop: Shop, *, tool: str = "run") -> None:
    """Run two tasks at a view, the second of which it takes from a queue: it has then looked through it."""
    shop.open.clear()
    tasks = [await client.start(tool, order=f"own {number}") for number in range(2)]
    shop.open.set()
    assert [(await task.result()).text for task in tasks] == [
        f"{shop.server.info.name} did own {number}" for number in range(2)
    ]


async def test_a_task_that_waits_for_room_is_run_by_its_own_view(views: Views) -> None:
    async with (
        views.gateway() as at,
        client_of(at, "/mcp/server/two") as other,
        client_of(at, "/mcp/server/one") as client,
    ):
        await other.tools()
        tasks = [await client.start("run", order=f"{number}") for number in range(2)]
        await use_the_queue(other, views.two)
        assert views.one.orders == ["0"]
        views.one.open.set()
        assert [(await task.result()).text for task in tasks] == ["one did 0", "one did 1"]
    assert (views.one.orders, views.two.orders) == (["0", "1"], ["own 0", "own 1"])


async def test_a_tool_with_the_full_name_of_another_does_not_get_its_tasks(views: Views) -> None:
    """At its own view a server may name a tool as another one is named among all servers."""
    bank, shop = Shop("bank", tool="pay"), Shop("shop", tool="bank__pay")
    async with (
        views.gateway(bank=bank.server, shop=shop.server) as at,
        client_of(at, "/mcp/server/shop") as narrow,
        client_of(at, "/mcp") as wide,
    ):
        await wide.tools()
        tasks = [await narrow.start("bank__pay", order=f"{number}") for number in range(2)]
        await use_the_queue(wide, bank, tool="bank__pay")
        shop.open.set()
        assert [(await task.result()).text for task in tasks] == ["shop did 0", "shop did 1"]
    assert (shop.orders, bank.orders) == (["0", "1"], ["own 0", "own 1"])


async def test_a_task_whose_gateway_has_ended_waits_for_its_own_view_at_another_one(views: Views) -> None:
    async with views.gateway() as at, client_of(at, "/mcp/server/one") as client:
        tasks = [await client.start("run", order=f"{number}") for number in range(2)]
        waiting = tasks[1].reference
    async with views.gateway() as at, client_of(at, "/mcp/server/two") as other:
        await use_the_queue(other, views.two)
        assert views.two.orders == ["own 0", "own 1"]
        views.one.open.set()
        async with client_of(at, "/mcp/server/one") as client:
            await client.tools()  # a view knows which tools run as tasks once it has listed them
            assert (await client.task(waiting).result()).text == "one did 1"
    assert (views.one.orders, views.two.orders) == (["0", "1"], ["own 0", "own 1"])


async def test_a_task_asks_and_is_answered_at_its_own_view_only(views: Views) -> None:
    asked: list[str] = []

    def answer(question: Any) -> dict[str, Any]:
        asked.append(question.message)
        return {"value": True}

    async with (
        views.gateway() as at,
        client_of(at, "/mcp/server/two", on_elicit=answer) as other,
        client_of(at, "/mcp/server/one", on_elicit=answer) as client,
    ):
        task = await client.start("ask", order="0")
        with pytest.raises(RemoteError, match="Task not found"):
            await other.request("tasks/result", {"taskId": task.id})
        assert asked == []
        assert (await task.result()).text == "one asked about 0: True"
    assert (views.one.orders, views.two.orders, asked) == (["0"], [], ["Sure?"])


@pytest.mark.parametrize("path", ["/mcp", "/mcp/server/two"])
async def test_a_task_is_shown_and_cancelled_at_its_own_view_only(views: Views, path: str) -> None:
    """A token may be good for one view only, which may have fewer tools than the others."""
    async with views.gateway() as at, client_of(at, "/mcp/server/one") as client, client_of(at, path) as other:
        task = await client.start("run", order="0")
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            with pytest.raises(RemoteError, match="Task not found"):
                await other.request(method, {"taskId": task.id})
        assert (await other.request("tasks/list"))["tasks"] == []
        assert [one["taskId"] for one in (await client.request("tasks/list"))["tasks"]] == [task.id]
        assert (await client.request("tasks/get", {"taskId": task.id}))["status"] == "working"
        views.one.open.set()
        assert (await task.result()).text == "one did 0"


async def test_a_task_with_the_extension_is_updated_at_its_own_view_only(views: Views) -> None:
    async with (
        views.gateway() as at,
        at.client(
            "ann", "/mcp/server/one", revision="2026-07-28", on_elicit=lambda question: {"value": True}
        ) as client,
        at.client("ann", "/mcp/server/two", revision="2026-07-28", on_elicit=lambda question: {"value": True}) as other,
    ):
        await client.tools()
        task = await client.start("ask", order="0")
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(RemoteError, match="Task not found"):
                await other.request(
                    method, {"taskId": task.id, **({"inputResponses": {}} if "update" in method else {})}
                )
        assert (await task.result()).text == "one asked about 0: True"
