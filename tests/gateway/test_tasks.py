"""Tasks through a gateway: each generation at the client with each generation at the server, and none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest

from dovetail import Client, Context, Gateway, Server, TaskCancelled, TaskNotFound
from dovetail.gateway.servers import upstream
from dovetail.protocol.revisions import REVISIONS
from tests.gateway.served import served, tokens

BACKS = ["2025-06-18", "2025-11-25", "2026-07-28"]
WITH_TASKS = ["2025-11-25", "2026-07-28"]


@dataclass
class Style:
    style: str


def make_server(revision: str) -> Server:
    server = Server(f"of {revision}", revisions=[revision])

    @server.tool(task="optional")
    async def render(scene: str, ctx: Context) -> list[str]:
        await ctx.status("rendering")
        return [scene, "done"]

    @server.tool(task="required")
    async def print_out(scene: str, ctx: Context) -> str:
        answer = await ctx.elicit("Which style?", Style)
        return f"{scene} in {answer.data.style}" if answer.accepted else "nothing"

    @server.tool(task="optional")
    async def wait(ctx: Context) -> str:
        await asyncio.sleep(3600)
        return "late"

    @server.tool
    async def quick() -> str:
        return "quick"

    return server


@contextlib.asynccontextmanager
async def joined(front: str, **options: Any) -> AsyncGenerator[Client]:
    gateway = Gateway({name: make_server(name) for name in BACKS})
    try:
        async with Client(gateway, revision=front, timeout=10, **options) as client:
            yield client
    finally:
        await gateway.close()


@pytest.mark.parametrize("back", BACKS)
@pytest.mark.parametrize("front", list(REVISIONS))
async def test_a_call_has_the_result_of_the_task(front: str, back: str) -> None:
    async with joined(front) as client:
        assert (await client.call(f"{back}__render", scene="rain")).data == ["rain", "done"]
        assert (await client.call(f"{back}__quick")).data == "quick"


@pytest.mark.parametrize("back", BACKS)
@pytest.mark.parametrize("front", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_task_asks_the_client(front: str, back: str) -> None:
    async with joined(front, on_elicit=lambda question: {"style": "noir"}) as client:
        assert (await client.call(f"{back}__print_out", scene="rain")).data == "rain in noir"


@pytest.mark.parametrize("back", WITH_TASKS)
@pytest.mark.parametrize("front", WITH_TASKS)
class TestStartedTasks:
    async def test_a_started_task_is_one_of_the_gateway(self, front: str, back: str) -> None:
        async with joined(front) as client:
            task = await client.start(f"{back}__render", scene="rain")
            assert task.id is not None
            assert (await task.result()).data == ["rain", "done"]
            again = client.task(task.reference)
            assert (await again.result()).data == ["rain", "done"]

    async def test_cancelling_it_ends_it(self, front: str, back: str) -> None:
        async with joined(front) as client:
            task = await client.start(f"{back}__wait")
            await task.cancel()
            with pytest.raises(TaskCancelled):
                await task.result(timeout=5)

    async def test_an_id_that_somebody_made_up_is_not_found(self, front: str, back: str) -> None:
        async with joined(front) as client:
            task = await client.start(f"{back}__render", scene="rain")
            await task.result()
            forged = client.task(task.reference)
            forged._driver._id = "0" * 32  # type: ignore[attr-defined]
            with pytest.raises(TaskNotFound):
                await forged.refresh()


@pytest.mark.parametrize("back", WITH_TASKS)
async def test_tools_say_to_clients_that_decide_which_calls_may_be_tasks(back: str) -> None:
    async with joined("2025-11-25") as client:
        tools = {tool.name: tool for tool in await client.tools()}
        execution = tools[f"{back}__render"].execution
        assert execution is not None
        assert execution.task_support == "optional"


async def test_a_task_goes_on_when_the_session_that_started_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the connection of that session, which is closed after it."""
    monkeypatch.setattr(upstream, "SWEEP_SECONDS", 0.02)
    server, finish, began = Server("slow", revisions=["2025-11-25"]), asyncio.Event(), asyncio.Event()

    @server.tool(task="optional")
    async def work(ctx: Context) -> str:
        began.set()
        await finish.wait()
        return "done"

    async with served(Gateway({"slow": server}, auth=tokens(ann=[]))) as at:
        async with at.client("ann", revision="2025-11-25") as client:
            task = await client.start("slow__work")
            reference = task.reference
            await began.wait()
        assert at.gateway.status["servers"]["slow"]["connections"] == 1
        finish.set()
        async with at.client("ann", revision="2025-11-25") as client:
            assert (await client.task(reference).result()).text == "done"
        async with asyncio.timeout(10):
            while at.gateway.status["servers"]["slow"]["connections"]:
                await asyncio.sleep(0.01)
