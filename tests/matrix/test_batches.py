"""JSON-RPC batches: taken apart and answered together on 2025-03-26, refused on every other revision."""

from typing import Any

import pytest

from dovetail.protocol.revisions import REVISIONS
from tests.matrix.connections import Transport, on, target, wired

NOTE = {"jsonrpc": "2.0", "method": "notifications/unheard"}

with_batches = on("2025-03-26")
without_batches = on(*(name for name in REVISIONS if name != "2025-03-26"))


def ping(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


def by_id(batch: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {answer["id"]: answer for answer in batch}


@with_batches
async def test_a_mixed_batch_is_answered_in_one(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        call = wire.request("tools/call", id="sum", name="add", arguments={"a": 1, "b": 2})
        wire.send([ping("p"), NOTE, call, wire.request("tools/dance", id="d"), wire.request("tools/list", id=7)])
        batch = await wire.receive()
        answers = by_id(batch)
        assert answers.keys() == {"p", "sum", "d", 7}
        assert len(batch) == 4
        assert answers["p"]["result"] == {}
        assert answers["sum"]["result"]["content"][0]["text"] == "3"
        assert answers["d"]["error"]["code"] == -32601
        assert answers[7]["result"]["tools"]
        assert await wire.quiet() == []


@with_batches
async def test_a_batch_of_notifications_is_not_answered(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        wire.send([NOTE, NOTE])
        assert await wire.quiet() == []


@with_batches
async def test_invalid_members_are_answered_among_the_others(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        wire.send([5, ping("p"), {"jsonrpc": "2.0", "id": "w", "method": 5}, [], {"method": "ping", "id": "old"}])
        batch = await wire.receive()
        assert len(batch) == 5
        assert sorted(str(answer["id"]) for answer in batch) == ["None", "None", "old", "p", "w"]
        assert {answer["error"]["code"] for answer in batch if "error" in answer} == {-32600}


@with_batches
async def test_an_empty_batch_is_one_invalid_request(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        wire.send([])
        answer = await wire.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)


@with_batches
async def test_the_answers_wait_for_the_slowest(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        wire.send([wire.request("tools/call", id="slow", name="hold", arguments={"key": "s"}), ping("quick")])
        await wire.call("happened", event="started s")
        assert wire.aside == []
        await wire.call("let", event="release s")
        batch = await wire.wait_for(lambda message: isinstance(message, list)) if not wire.aside else wire.aside[0]
        assert by_id(batch).keys() == {"slow", "quick"}


@with_batches
async def test_a_cancelled_member_does_not_hold_up_the_others(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        wire.send([wire.request("tools/call", id="slow", name="hold", arguments={"key": "c"}), ping("quick")])
        await wire.call("happened", event="started c")
        wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})
        [answer] = await wire.wait_for(lambda message: isinstance(message, list))
        assert answer["id"] == "quick"


@with_batches
async def test_a_batch_of_which_everything_was_cancelled_is_not_answered(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        wire.send([wire.request("tools/call", id="slow", name="hold", arguments={"key": "a"})])
        await wire.call("happened", event="started a")
        wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})
        await wire.call("happened", event="stopped a")
        assert await wire.quiet() == []


@with_batches
async def test_progress_of_a_member_comes_before_the_batch_of_answers(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        token = {"progressToken": "t"}
        wire.send([wire.request("tools/call", id="c", name="count", arguments={"steps": 2}, _meta=token)])
        batch = await wire.wait_for(lambda message: isinstance(message, list))
        assert [message["params"]["progress"] for message in wire.aside] == [1, 2]
        assert by_id(batch).keys() == {"c"}


@with_batches
async def test_initialize_is_not_part_of_a_batch(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision, greet=False) as (wire, _):
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        wire.send([wire.request("initialize", id="hello", **hello)])
        answer = await wire.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert (await wire.shake_hands(revision))["protocolVersion"] == revision


@without_batches
@pytest.mark.parametrize("members", [[ping(1), ping(2)], [NOTE]], ids=["requests", "notifications"])
async def test_other_revisions_refuse_a_batch(
    transport: Transport, revision: str, members: list[dict[str, Any]]
) -> None:
    async with wired(target(transport), revision) as (wire, _):
        assert "result" in await wire.ask("tools/list")
        wire.send(members)
        answer = await wire.receive()
        assert answer["error"]["code"] == -32600
        assert answer.get("id") is None
        assert await wire.quiet() == []
