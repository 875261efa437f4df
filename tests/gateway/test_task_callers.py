"""Tasks that wait for room at a gateway: each runs for its own caller, whichever task or request made the room."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dovetail import Client, Context, Gateway, Policy, Principal, RemoteError, Rule, Server, StaticTokens
from dovetail.client.tasks.task import Task
from dovetail.policy import Equals
from dovetail.server.tasks import running_places
from dovetail.server.tasks import tasks as tasks_module
from dovetail.server.tasks.options import TaskSupport
from tests.gateway.served import ServedGateway, served
from tests.support.replica_clients import OpenStore

FRONTS = ["2025-11-25", "2026-07-28"]


class Plant:
    """A server with a tool that holds its place until a test frees it, and one that only some may use."""

    def __init__(self, revision: str = "2025-11-25", asks: TaskSupport | float = "optional") -> None:
        self.server = Server("plant", revisions=[revision])
        self.opened: list[str] = []
        self.free = asyncio.Event()

        @self.server.tool(task="optional")
        async def hold() -> str:
            await self.free.wait()
            return "held"

        @self.server.tool(task="optional")
        async def open_valve(by: str, fully: bool) -> str:
            self.opened.append(by)
            return "open"

        @self.server.tool(task=asks)
        async def close_valve(ctx: Context) -> str:
            answer = await ctx.elicit("Sure?", bool)
            self.opened.clear()
            return f"closed: {answer.data}"


def gateway_of(plant: Plant) -> Gateway:
    """A gateway whose callers are known by tokens; ann has one with her group, and one without it."""
    engineers = {"groups": ["engineers"]}
    tokens = {
        "token-of-strong": Principal(subject="ann", claims=engineers),
        "token-of-weak": Principal(subject="ann", claims={"groups": []}),
        "token-of-eve": Principal(subject="eve", claims=engineers),
    }
    rules = [
        # It is listed for all callers, since it depends on the arguments: a client of 2025-11-25 can ask for a task.
        Rule("deny", tool="open_valve", not_group="engineers", arguments={"fully": Equals(True)}),
        Rule("deny", tool="close_valve", not_group="engineers"),
        Rule("allow", tool="*"),
    ]
    return Gateway({"plant": plant.server}, auth=StaticTokens(tokens), policy=Policy(rules))


@contextlib.asynccontextmanager
async def serving_plant(plant: Plant, **options: Any) -> AsyncIterator[ServedGateway]:
    gateway = gateway_of(plant)
    async with served(gateway, **options) as at:
        yield at
    await gateway.close()


@pytest.fixture
def one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """One task of all clients runs at a time, so that the next one waits in the store."""
    monkeypatch.setattr(running_places, "MAX_RUNNING_TASKS", 1)
    monkeypatch.setattr(tasks_module, "WATCH_SECONDS", 0.05)


async def queue_behind(plant: Plant, first: Client, second: Client, tool: str, **arguments: Any) -> Task[Any]:
    """Start a task of one client, which holds the only place, and one of another, which waits until it is free."""
    await first.tools()
    await second.tools()
    holding = await first.start("plant__hold")
    waiting = await second.start(tool, **arguments)
    plant.free.set()
    assert (await holding.result()).text == "held"
    return waiting


@pytest.mark.usefixtures("one_place")
@pytest.mark.parametrize("front", FRONTS)
class TestRules:
    async def test_a_task_does_not_get_the_groups_of_the_one_that_it_waited_for(self, front: str) -> None:
        plant = Plant()
        async with (
            serving_plant(plant) as at,
            at.client("strong", revision=front) as strong,
            at.client("weak", revision=front) as weak,
        ):
            task = await queue_behind(plant, strong, weak, "plant__open_valve", by="weak", fully=True)
            with pytest.raises(RemoteError, match="policy of the gateway does not allow"):
                await task.result()
        assert plant.opened == []

    @pytest.mark.parametrize("behind", ["weak", "eve"])
    async def test_a_task_has_its_own_groups_whoever_it_waited_for(self, front: str, behind: str) -> None:
        plant = Plant()
        async with (
            serving_plant(plant) as at,
            at.client(behind, revision=front) as other,
            at.client("strong", revision=front) as strong,
        ):
            task = await queue_behind(plant, other, strong, "plant__open_valve", by="strong", fully=True)
            assert (await task.result()).text == "open"
        assert plant.opened == ["strong"]

    @pytest.mark.parametrize(("caller", "opened"), [("strong", ["strong"]), ("weak", [])])
    async def test_another_process_decides_by_the_groups_of_the_request(
        self, front: str, caller: str, opened: list[str], store: OpenStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plant = Plant()
        stores = store(), store()
        monkeypatch.setattr(running_places, "MAX_RUNNING_TASKS", 0)
        async with serving_plant(plant, store=stores[0]) as at, at.client(caller, revision=front) as client:
            await client.tools()
            reference = (await client.start("plant__open_valve", by=caller, fully=True)).reference
        monkeypatch.setattr(running_places, "MAX_RUNNING_TASKS", 1)
        async with serving_plant(plant, store=stores[1]) as at:
            async with at.client("eve", revision=front) as eve:
                await eve.tools()  # a view knows which tools run as tasks once it has listed them
            async with at.client("weak", revision=front) as client:
                if opened:
                    assert (await client.task(reference).result()).text == "open"
                else:
                    with pytest.raises(RemoteError, match="policy of the gateway does not allow"):
                        await client.task(reference).result()
        assert plant.opened == opened
        for one in stores:
            await one.close()


@pytest.mark.parametrize(
    ("front", "asks"), [("2025-11-25", 60.0), ("2025-11-25", "optional"), ("2026-07-28", "optional")]
)
async def test_a_task_goes_on_for_its_own_caller_whichever_token_brings_the_answer(
    front: str, asks: TaskSupport | float
) -> None:
    """Where the server asks before it makes a task, the call begins again with the answer."""
    plant = Plant("2026-07-28", asks)
    asked = {"revision": front, "on_elicit": lambda question: {"value": True}}
    async with (
        serving_plant(plant) as at,
        at.client("strong", **asked) as strong,
        at.client("weak", **asked) as weak,
    ):
        await strong.tools()
        task = await strong.start("plant__close_valve")
        assert (await weak.task(task.reference).result()).text == "closed: True"
