"""The audit log of a gateway: each decision and each outcome, however a request comes and whatever becomes of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Audit, Client, Context, Gateway, Policy, RemoteError, Rule, Server, ToolError
from dovetail.gateway import SearchLimits
from dovetail.policy import read_records
from dovetail.text.tool_search import CALL
from dovetail.types.messages import PromptReference
from tests.gateway.served import served, tokens

ERAS = ["2025-11-25", "2026-07-28"]

Record = tuple[str, str, str | None, Any]
"""Event, name, decider and outcome."""

RULES = [
    Rule("deny", tool="secret"),
    Rule("deny", kind="prompt", name="hidden"),
    Rule("deny", kind="resource", name="hidden:*"),
    Rule("allow", tool="*"),
]


def make_server(revision: str) -> Server:
    server = Server("desk", revisions=[revision])

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def secret() -> str:
        return "secret"

    @server.tool(task="optional")
    async def work(how: str, ctx: Context) -> str:
        if how == "fails":
            raise ToolError("no luck")
        if how == "waits":
            await asyncio.Event().wait()
        return "done"

    for name in ("greeting", "hidden"):
        server.prompt(_greet, name=name)
        server.completion(name, "who")(_people)

    for uri in ("note://1", "hidden://1"):
        server.resource(uri, name=uri)(_read)

    return server


async def _greet(who: str) -> str:
    return f"Greet {who}"


async def _people(value: str) -> list[str]:
    return ["bob"]


async def _read() -> str:
    return "text"


class Scene:
    """A gateway with an audit log, and a client of it."""

    def __init__(self, client: Client, path: Path) -> None:
        self.client = client
        self._path = path

    def records(self) -> list[Record]:
        """What is in the log, which is made for the first record."""
        if not self._path.exists():
            return []
        found = [one for one in read_records(self._path) if one.event not in ("open", "close")]
        assert {one.details["principal"] for one in found} <= {"ann"}
        return [(one.event, one.name, one.by, one.details.get("outcome")) for one in found]

    async def wait_for(self, count: int) -> list[Record]:
        """The records once there are so many: outcomes are written soon after the answer."""
        async with asyncio.timeout(10):
            while len(self.records()) < count:
                await asyncio.sleep(0.01)
        return self.records()


@contextlib.asynccontextmanager
async def scene(folder: Path, front: str, back: str, **options: Any) -> AsyncIterator[Scene]:
    audit = Audit(folder / "audit.jsonl", folder=folder)
    gateway = Gateway({"desk": make_server(back)}, auth=tokens(ann=[]), policy=Policy(RULES), audit=audit, **options)
    async with served(gateway) as at, at.client("ann", revision=front) as client:
        yield Scene(client, audit.path)
    await gateway.close()


@pytest.mark.parametrize("back", ERAS)
@pytest.mark.parametrize("front", ERAS)
@pytest.mark.parametrize(("how", "outcome"), [("works", "ok"), ("fails", "failed")])
async def test_the_outcome_of_a_task_is_recorded(tmp_path: Path, front: str, back: str, how: str, outcome: str) -> None:
    async with scene(tmp_path, front, back) as at:
        await at.client.tools()
        task = await at.client.start("desk__work", how=how)
        result = await task.result(check=False) if how == "fails" else await task.result()
        assert result.is_error == (how == "fails")
        # Where the server made a task of the call, that is recorded too.
        handed_over = [("result", "work", None, "task")] if front == back == ERAS[1] else []
        expected = [("call", "work", "policy", None), *handed_over, ("result", "work", None, outcome)]
        assert await at.wait_for(len(expected)) == expected


@pytest.mark.parametrize("back", ERAS)
@pytest.mark.parametrize("front", ERAS)
async def test_a_cancelled_task_is_recorded_as_such(tmp_path: Path, front: str, back: str) -> None:
    async with scene(tmp_path, front, back) as at:
        await at.client.tools()
        task = await at.client.start("desk__work", how="waits")
        await at.wait_for(1)
        await task.cancel()
        count = 3 if front == back == ERAS[1] else 2
        assert (await at.wait_for(count))[-1] == ("result", "work", None, "CancelledError")


@pytest.mark.parametrize("front", ERAS)
async def test_a_tool_that_was_found_by_search_is_recorded_by_its_own_name(tmp_path: Path, front: str) -> None:
    async with scene(tmp_path, front, ERAS[1], search_above=SearchLimits(tools=1)) as at:
        await at.client.call(CALL, arguments={"name": "desk__add", "arguments": {"a": 1, "b": 2}})
        with pytest.raises(RemoteError, match="does not allow"):
            await at.client.call(CALL, arguments={"name": "desk__secret", "arguments": {}})
        assert await at.wait_for(3) == [
            ("call", "add", "policy", None),
            ("result", "add", None, "ok"),
            ("refusal", "secret", "policy", None),
        ]


@pytest.mark.parametrize("front", ERAS)
async def test_prompts_and_resources_are_recorded(tmp_path: Path, front: str) -> None:
    async with scene(tmp_path, front, ERAS[1]) as at:
        await at.client.prompt("desk__greeting", who="bob")
        with pytest.raises(RemoteError, match="does not allow"):
            await at.client.prompt("desk__hidden", who="bob")
        await at.client.read("note://1")
        with pytest.raises(RemoteError, match="does not allow"):
            await at.client.read("hidden://1")
        assert await at.wait_for(6) == [
            ("call", "greeting", "policy", None),
            ("result", "greeting", None, "ok"),
            ("refusal", "hidden", "policy", None),
            ("call", "note://1", "policy", None),
            ("result", "note://1", None, "ok"),
            ("refusal", "hidden://1", "policy", None),
        ]


@pytest.mark.parametrize("front", ERAS)
async def test_a_refused_completion_is_recorded(tmp_path: Path, front: str) -> None:
    async with scene(tmp_path, front, ERAS[1]) as at:
        with pytest.raises(RemoteError, match="does not allow"):
            await at.client.complete(PromptReference("desk__hidden"), "who", "")
        assert await at.wait_for(1) == [("refusal", "hidden", "policy", None)]


async def test_a_refused_subscription_is_recorded(tmp_path: Path) -> None:
    async with scene(tmp_path, ERAS[0], ERAS[0]) as at:
        with pytest.raises(RemoteError, match="does not allow"):
            await at.client.request("resources/subscribe", {"uri": "hidden://1"})
        assert await at.wait_for(1) == [("refusal", "hidden://1", "policy", None)]


async def test_requests_beyond_the_rate_limit_are_recorded_once_until_one_is_admitted(tmp_path: Path) -> None:
    async with scene(tmp_path, ERAS[1], ERAS[1], rate_limit=0.001, burst=1) as at:
        await at.client.call("desk__add", a=1, b=2)
        for _ in range(3):
            with pytest.raises(RemoteError, match="Too many requests"):
                await at.client.call("desk__add", a=1, b=2)
        assert await at.wait_for(3) == [
            ("call", "add", "policy", None),
            ("result", "add", None, "ok"),
            ("refusal", "add", "policy", None),
        ]
