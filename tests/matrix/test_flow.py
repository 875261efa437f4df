"""Calls in flight on every revision and transport: many at once, cancelled, with progress, out of time."""

import asyncio
import contextlib
import itertools
from typing import Any

import pytest

from dovetail import Client, Timeout, ToolFailed
from dovetail.protocol.revisions import REVISIONS
from tests.matrix.connections import (
    Transport,
    connected,
    on_a_connection,
    on_envelope,
    on_handshake,
    target,
    tells_of_cancelling,
    wired,
)
from tests.support.oracle import Message, Oracle

_numbers = itertools.count()


@pytest.fixture
def key() -> str:
    """A name that no other call on a shared server has."""
    return f"key-{next(_numbers)}"


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def about(oracle: Oracle, call: Message) -> list[Message]:
    """All that the server said about a call."""
    id, token = call.body["id"], call.params.get("_meta", {}).get("progressToken")
    return [
        message
        for message in oracle.sent_by("server")
        if (message.method is None and message.body.get("id") == id)
        or (token is not None and message.params.get("progressToken") == token)
    ]


def the_call(oracle: Oracle, tool: str) -> Message:
    [call] = [each for each in oracle.sent_by("client", "tools/call") if each.params["name"] == tool]
    return call


async def test_calls_run_at_once_and_each_gets_its_own_answer(client: Client, key: str) -> None:
    keys = [f"{key}-{n}" for n in range(20)]
    calls = {name: asyncio.create_task(client.call("hold", key=name)) for name in keys}
    for name in keys:
        await client.call("happened", event=f"started {name}")
    for name in reversed(keys):
        await client.call("let", event=f"release {name}")
        assert (await calls[name]).data == name


@pytest.mark.one_replica("the limit is that of each replica")
async def test_a_tool_runs_no_more_calls_at_once_than_it_allows(client: Client, key: str) -> None:
    first = asyncio.create_task(client.call("hold_alone", key=f"{key}-1"))
    await client.call("happened", event=f"started {key}-1")
    second = asyncio.create_task(client.call("hold_alone", key=f"{key}-2"))
    await client.call("let", event=f"release {key}-2")
    assert (await client.call("has_happened", event=f"started {key}-2")).data is False
    await client.call("let", event=f"release {key}-1")
    assert [(await first).data, (await second).data] == [f"{key}-1", f"{key}-2"]


@on_handshake
async def test_requests_go_both_ways_at_once(transport: Transport, revision: str) -> None:
    """The client answers the first question only when the third has come."""
    async with connected(target(transport), revision) as (client, oracle, notes):
        answers = await client.call("ask", method="notes/approve", times=3)
        assert answers.data == [{"approved": 0}, {"approved": 1}, {"approved": 2}]
        assert notes.most_at_once == 3
        assert len(oracle.sent_by("server", "notes/approve")) == 3


@on_handshake
async def test_a_question_that_the_client_cannot_answer_fails_for_the_server_only(client: Client) -> None:
    with pytest.raises(ToolFailed, match="-32603"):
        await client.call("ask", method="notes/fail")
    assert (await client.call("add", a=1, b=2)).data == 3


@on_envelope
async def test_a_server_of_the_envelope_era_sends_no_requests(client: Client, oracle: Oracle) -> None:
    with pytest.raises(ToolFailed, match="cannot send notes/approve"):
        await client.call("ask", method="notes/approve")
    assert oracle.sent_by("server", "notes/approve") == []


def the_cancelled(transport: Transport, revision: str, wire: Oracle) -> list[Message]:
    """What was cancelled: told by a message where that is how it is told, and by none elsewhere."""
    asked = the_call(wire, "hold")
    told = wire.sent_by("client", "notifications/cancelled")
    if not tells_of_cancelling(transport, revision):
        assert told == []
    else:
        assert [each.params["requestId"] for each in told] == [asked.body["id"]]
    assert about(wire, asked) == []
    return told


async def test_a_cancelled_call_is_stopped_and_nothing_more_is_sent_for_it(
    client: Client, wire: Oracle, key: str, transport: Transport, revision: str
) -> None:
    """The handler reports progress while it is being stopped: even that goes nowhere."""
    call = asyncio.create_task(client.call("hold", key=key, progress=lambda *_: None))
    await client.call("happened", event=f"started {key}")
    await cancelled(call)
    await client.call("happened", event=f"stopped {key}")
    the_cancelled(transport, revision, wire)


async def test_only_the_call_that_was_cancelled_stops(client: Client, key: str) -> None:
    kept = asyncio.create_task(client.call("hold", key=f"{key}-kept"))
    dropped = asyncio.create_task(client.call("hold", key=f"{key}-dropped"))
    for name in ("kept", "dropped"):
        await client.call("happened", event=f"started {key}-{name}")
    await cancelled(dropped)
    await client.call("happened", event=f"stopped {key}-dropped")
    await client.call("let", event=f"release {key}-kept")
    assert (await kept).data == f"{key}-kept"


async def test_a_call_that_waits_for_its_turn_can_be_cancelled(client: Client, key: str) -> None:
    first = asyncio.create_task(client.call("hold_alone", key=f"{key}-1"))
    await client.call("happened", event=f"started {key}-1")
    await cancelled(second := asyncio.create_task(client.call("hold_alone", key=f"{key}-2")))
    assert second.cancelled()
    await client.call("let", event=f"release {key}-1")
    await first
    await client.call("let", event=f"release {key}-3")
    assert (await client.call("hold_alone", key=f"{key}-3")).data == f"{key}-3"


@on_a_connection
async def test_a_thousand_calls_at_once_are_all_answered(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        for n in range(1000):
            wire.send(wire.request("tools/call", f"call {n}", name="add", arguments={"a": n, "b": 1}))
        sums = {}
        for _ in range(1000):
            answer = await wire.wait_for(lambda message: "id" in message and "method" not in message)
            sums[answer["id"]] = answer["result"]["content"][0]["text"]
        assert sums == {f"call {n}": str(n + 1) for n in range(1000)}


@on_handshake
@on_a_connection
async def test_initialize_cannot_be_cancelled(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision, greet=False) as (wire, _):
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        wire.send({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello})
        wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "hello"}})
        assert (await wire.receive())["result"]["protocolVersion"] == revision


@on_handshake
async def test_a_server_that_gives_up_cancels_its_question(transport: Transport, revision: str) -> None:
    async with connected(target(transport), revision) as (client, oracle, notes):
        with pytest.raises(ToolFailed, match="No answer to notes/hold"):
            await client.call("ask", method="notes/hold", timeout_seconds=0.3)
        await notes.events["stopped"].wait()
        [asked] = oracle.sent_by("server", "notes/hold")
        [told] = oracle.sent_by("server", "notifications/cancelled")
        assert told.params["requestId"] == asked.body["id"]
        await client.ping()
        answers = [m for m in oracle.sent_by("client") if m.method is None]
        assert answers == []


@on_handshake
async def test_a_cancelled_call_takes_its_questions_with_it(transport: Transport, revision: str) -> None:
    async with connected(target(transport), revision) as (client, oracle, notes):
        call = asyncio.create_task(client.call("ask", method="notes/hold"))
        await notes.events["holding"].wait()
        await cancelled(call)
        await notes.events["stopped"].wait()
        assert len(oracle.sent_by("server", "notifications/cancelled")) == 1


async def test_progress_reaches_the_caller_in_order(client: Client, oracle: Oracle, revision: str) -> None:
    """With messages where the revision has them; a step backwards is not sent."""
    heard: list[tuple[float, float | None, str | None]] = []
    result = await client.call("count", steps=3, progress=lambda *said: heard.append(said))
    assert result.data == 3
    says = "message" in REVISIONS[revision].known["ProgressParams"]
    assert heard == [(n, 3, f"step {n}" if says else None) for n in (1, 2, 3)]
    token = the_call(oracle, "count").params["_meta"]["progressToken"]
    sent = oracle.sent_by("server", "notifications/progress")
    assert [message.params["progressToken"] for message in sent] == [token] * 3


async def test_progress_that_nobody_asked_for_is_not_sent(client: Client, oracle: Oracle) -> None:
    assert (await client.call("count", steps=3)).data == 3
    assert oracle.sent_by("server", "notifications/progress") == []


async def test_a_progress_token_may_be_a_text(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        answer = await wire.ask("tools/call", name="count", arguments={"steps": 2}, _meta={"progressToken": "my token"})
        assert "result" in answer
        assert [message["params"]["progressToken"] for message in wire.aside] == ["my token"] * 2


@on_handshake
async def test_progress_reaches_a_server_that_asked(client: Client) -> None:
    heard = await client.call("ask_with_progress", method="notes/tick")
    assert heard.data == [[1, 2, None], [2, 2, None]]


async def test_a_call_that_takes_too_long_is_cancelled(
    client: Client, wire: Oracle, key: str, transport: Transport, revision: str
) -> None:
    with pytest.raises(Timeout, match=r"0\.3 s"):
        await client.call("hold", key=key, timeout=0.3)
    await client.call("happened", event=f"stopped {key}")
    assert {told.params["reason"] for told in the_cancelled(transport, revision, wire)} <= {"timed out"}


async def test_progress_renews_the_patience(client: Client) -> None:
    """Each report comes well within the second that the call is given, all together take longer."""
    result = await client.call("tick", pause=0.1, times=13, timeout=1, progress=lambda *_: None)
    assert result.data == 13


async def test_progress_does_not_renew_the_hard_maximum(transport: Transport, revision: str) -> None:
    async with connected(target(transport), revision, timeout=10, max_timeout=1.25) as (client, oracle, _):
        with pytest.raises(Timeout, match=r"1\.25 s"):
            await client.call("tick", pause=0.1, times=1000, timeout=1, progress=lambda *_: None)
        assert oracle.sent_by("server", "notifications/progress")
        if tells_of_cancelling(transport, revision):
            assert len(oracle.sent_by("client", "notifications/cancelled")) == 1
