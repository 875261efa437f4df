"""Sampling and elicitation that a server of 2025-11-25 asks for as tasks."""

import asyncio
from typing import Any, Self

import pytest

from dovetail import Client, Refused
from dovetail.client.tasks import received_tasks
from tests.support.oracle import Oracle
from tests.support.scripted import Scripted, welcome
from tests.support.waiting import until

RELATED = "io.modelcontextprotocol/related-task"
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 9}
FORM = {"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}


class Asker:
    """The server's side of one connection; the test asks."""

    def __init__(self, **options: Any) -> None:
        self.server = Scripted(initialize=welcome(protocolVersion="2025-11-25"), ping={})
        self.oracle = Oracle(judge=["client"])
        self.client = Client(self.server, revision="2025-11-25", trace=self.oracle, **options)
        self._ids = 0

    async def __aenter__(self) -> Self:
        await self.client.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        self.oracle.verdict()

    async def answer(self, method: str, **params: Any) -> dict[str, Any]:
        self._ids += 1
        id = f"ask-{self._ids}"
        self.server.peer.request(id, method, **params)

        def found() -> list[dict[str, Any]]:
            return [message for message in self.server.asked if message.get("id") == id]

        await until(found)
        return found()[0]

    async def create(self, method: str, params: dict[str, Any], **task: Any) -> dict[str, Any]:
        return (await self.answer(method, **params, task=task))["result"]["task"]

    def notified(self) -> list[str]:
        messages = [each for each in self.server.asked if each.get("method") == "notifications/tasks/status"]
        return [each["params"]["status"] for each in messages]


async def test_a_client_declares_the_tasks_that_it_has_handlers_for():
    async with Asker(on_sample=lambda _: "x") as asker:
        (sent,) = asker.oracle.sent_by("client", "initialize")
        requests = {"sampling": {"createMessage": {}}}
        assert sent.params["capabilities"]["tasks"] == {"list": {}, "cancel": {}, "requests": requests}


async def test_a_sampling_task_runs_in_the_background():
    released = asyncio.Event()

    async def sample(_: Any) -> str:
        await released.wait()
        return "Hello"

    async with Asker(on_sample=sample) as asker:
        task = await asker.create("sampling/createMessage", SAMPLE, ttl=60_000)
        assert (task["status"], task["ttl"]) == ("working", 60_000)
        id = task["taskId"]
        assert (await asker.answer("tasks/get", taskId=id))["result"] == task
        assert (await asker.answer("tasks/list"))["result"] == {"tasks": [task]}
        asking = asyncio.create_task(asker.answer("tasks/result", taskId=id))
        await asyncio.sleep(0)
        released.set()
        result = (await asking)["result"]
        assert result["content"]["text"] == "Hello"
        assert result["_meta"] == {RELATED: {"taskId": id}}
        assert (await asker.answer("tasks/get", taskId=id))["result"]["status"] == "completed"
        assert asker.notified() == ["completed"]


async def test_an_elicitation_task_is_answered():
    async with Asker(on_elicit=lambda _: None) as asker:
        task = await asker.create("elicitation/create", FORM)
        assert task["ttl"] == 3_600_000
        assert (await asker.answer("tasks/result", taskId=task["taskId"]))["result"]["action"] == "decline"


async def test_a_refusal_is_the_error_of_the_task():
    def refuse(_: Any) -> str:
        raise Refused("no")

    async with Asker(on_sample=refuse) as asker:
        task = await asker.create("sampling/createMessage", SAMPLE)
        assert (await asker.answer("tasks/result", taskId=task["taskId"]))["error"]["code"] == -1
        assert (await asker.answer("tasks/get", taskId=task["taskId"]))["result"]["status"] == "failed"


async def test_a_task_is_cancelled_once():
    async def sample(_: Any) -> str:
        await asyncio.Event().wait()
        return ""

    async with Asker(on_sample=sample) as asker:
        id = (await asker.create("sampling/createMessage", SAMPLE))["taskId"]
        assert (await asker.answer("tasks/cancel", taskId=id))["result"]["status"] == "cancelled"
        assert (await asker.answer("tasks/cancel", taskId=id))["error"]["code"] == -32602
        assert "cancelled" in (await asker.answer("tasks/result", taskId=id))["error"]["message"]


async def test_the_ttl_is_bounded_and_a_task_is_gone_after_it():
    async with Asker(on_sample=lambda _: "x") as asker:
        assert (await asker.create("sampling/createMessage", SAMPLE, ttl=10**9))["ttl"] == 3_600_000
        id = (await asker.create("sampling/createMessage", SAMPLE, ttl=0))["taskId"]
        assert (await asker.answer("tasks/get", taskId=id))["error"]["code"] == -32602


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
async def test_unknown_tasks_have_one_answer(method: str):
    async with Asker(on_sample=lambda _: "x") as asker:
        assert (await asker.answer(method, taskId="nonsense"))["error"]["code"] == -32602


async def test_ended_tasks_make_room_and_running_ones_do_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(received_tasks, "MAX_RECEIVED_TASKS", 2)
    going = asyncio.Event()

    async def sample(_: Any) -> str:
        if going.is_set():
            await asyncio.Event().wait()
        return ""

    async with Asker(on_sample=sample) as asker:
        first = (await asker.create("sampling/createMessage", SAMPLE))["taskId"]
        await asker.answer("tasks/result", taskId=first)
        going.set()
        for _ in range(2):
            await asker.create("sampling/createMessage", SAMPLE)
        assert (await asker.answer("tasks/get", taskId=first))["error"]["code"] == -32602
        refused = await asker.answer("sampling/createMessage", **SAMPLE, task={})
        assert "Too many tasks" in refused["error"]["message"]


async def test_a_client_that_is_closed_stops_its_tasks():
    stopped = asyncio.Event()

    async def sample(_: Any) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with Asker(on_sample=sample) as asker:
        await asker.create("sampling/createMessage", SAMPLE)
        await asyncio.sleep(0)
    await stopped.wait()
