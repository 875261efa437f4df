"""Many more calls than may be in flight, sent in one go: all are answered, and nothing else has to wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dovetail.protocol.peer import MAX_IN_FLIGHT
from tests.faults.conftest import NASTY, SERVERS
from tests.support.raw import HANDSHAKE, RawServer, memory, script

GROWTH = 60.0
"""MB that a server may grow by; the calls that wait have 16 MB at most."""

LARGE = 100_000


@pytest.fixture
def asking_server() -> Iterator[RawServer]:
    """A server whose client has said that it answers questions."""
    with RawServer(script(SERVERS / "lingering.py")) as server:
        server.revision = HANDSHAKE
        client = {"name": "raw", "version": "1"}
        server.ask(
            "initialize", {"protocolVersion": HANDSHAKE, "capabilities": {"elicitation": {}}, "clientInfo": client}
        )
        server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield server


def cancel(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_all_calls_are_answered_with_bounded_memory(fresh_server: RawServer, count: int) -> None:
    server = fresh_server
    server.still_works()
    before = memory(server.pid)
    server.send(*(server.tool(n, "slow", seconds=0.01) for n in range(count)))
    answers = [server.message() for _ in range(count)]
    assert {answer["id"] for answer in answers} == set(range(count))
    assert all("result" in answer for answer in answers)
    assert memory(server.pid, "VmHWM") - before < GROWTH


def test_all_calls_are_answered_after_the_end_of_input(revision: str) -> None:
    with RawServer(NASTY) as server:
        server.open(revision)
        server.send(*(server.tool(n, "slow", seconds=0.01) for n in range(3_000)))
        server.close_input()
        assert {answer["id"] for answer in server.rest() if "result" in answer} == set(range(3_000))
        assert server.wait() == 0
        assert server.stderr == ""


def test_an_answer_to_a_question_is_read_while_calls_wait(asking_server: RawServer) -> None:
    server = asking_server
    server.send(server.tool("asks", "ask", question="Who?"))
    question = server.message()
    assert question["method"] == "elicitation/create"
    server.send(*(server.tool(f"call {n}", "linger", seconds=600) for n in range(2 * MAX_IN_FLIGHT)))
    server.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"value": "Ann"}}})
    answer = server.message()
    assert (answer["id"], answer["result"]["content"][0]["text"]) == ("asks", "accept: Ann")
    # Cancelled in their order: those that wait take the place of those that ran, and are cancelled in turn.
    server.send(*(cancel(f"call {n}") for n in range(2 * MAX_IN_FLIGHT)))
    server.still_works()
    server.close_input()
    assert server.rest() == []
    assert server.wait() == 0


def test_a_ping_is_answered_while_calls_wait(asking_server: RawServer) -> None:
    server = asking_server
    server.send(*(server.tool(f"call {n}", "linger", seconds=600) for n in range(2 * MAX_IN_FLIGHT)))
    assert server.ask("ping")["result"] == {}


def test_calls_above_the_budget_are_refused_with_the_limits_and_all_others_answered(fresh_server: RawServer) -> None:
    """17 MB of calls would wait, so that some are refused; the memory stays bounded."""
    server = fresh_server
    server.still_works()
    before = memory(server.pid)
    server.send(*(server.tool(n, "block", seconds=60) for n in range(MAX_IN_FLIGHT)))
    server.send(*(server.tool(f"large {n}", "echo", text="x" * LARGE) for n in range(200)))
    refused = [server.message() for _ in range(200 - (16 << 20) // LARGE - 1)]
    assert all(answer["id"].startswith("large") for answer in refused)
    assert {answer["error"]["code"] for answer in refused} == {-32603}
    limits = {"maxInFlight": MAX_IN_FLIGHT, "maxWaitingBytes": 16 << 20}
    assert all(answer["error"]["data"] == limits for answer in refused)
    server.send(*(cancel(n) for n in range(MAX_IN_FLIGHT)))
    answered = set[str]()
    while len(answered) + len(refused) < 200:
        answer = server.message()
        if "error" in answer:
            refused.append(answer)
        else:
            answered.add(answer["id"])
    assert len(answered) + len(refused) == 200
    assert len(answered) > 150
    assert memory(server.pid, "VmHWM") - before < GROWTH + 32
    server.still_works()
