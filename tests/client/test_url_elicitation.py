"""A call that needs a visit to a page first (2025-11-25, −32042)."""

import asyncio
from typing import Any

import pytest

from dovetail import Client, Refused
from dovetail.client.elicitation import Elicitation
from dovetail.protocol.errors import URL_ELICITATION_REQUIRED, ConnectionLost, InvalidAnswer, RemoteError
from dovetail.protocol.revisions import HANDSHAKE
from tests.support.clock import Clock
from tests.support.peer import notification
from tests.support.scripted import Error, Scripted, welcome
from tests.support.waiting import settled, until

NAME = HANDSHAKE[-1]
PAGE = {"mode": "url", "elicitationId": "7", "url": "https://a.example/in", "message": "Sign in"}
DONE = {"content": [{"type": "text", "text": "done"}]}
COMPLETE = notification("notifications/elicitation/complete", elicitationId="7")


def wanting(*pages: Any, data: Any = None) -> Error:
    return Error(URL_ELICITATION_REQUIRED, "Sign in first", data or {"elicitations": list(pages or [PAGE])})


def in_turn(*answers: Any, name: str = NAME) -> Scripted:
    left = list(answers)
    return Scripted(
        initialize=welcome(protocolVersion=name),
        tools_call=lambda _: left.pop(0) if len(left) > 1 else left[0],
    )


async def test_the_person_is_asked_and_the_call_made_again_when_the_visit_is_over():
    seen: list[Elicitation] = []

    def agree(question: Elicitation) -> Any:
        seen.append(question)
        return "accept"

    server = in_turn(wanting(), DONE)
    async with Client(server, revision=NAME, on_elicit=agree) as client:
        call = asyncio.create_task(client.call("t"))
        await until(lambda: seen)
        server.peer.send(notification("notifications/elicitation/complete", elicitationId="unknown"))
        await settled()
        assert server.methods.count("tools/call") == 1
        server.peer.send(COMPLETE)
        assert (await call).text == "done"
    assert [(question.url, question.id, question.mode) for question in seen] == [(PAGE["url"], "7", "url")]


async def test_a_visit_may_be_over_before_anyone_waits_for_it():
    server = in_turn(wanting(), DONE)

    async def agree(question: Elicitation) -> Any:
        server.peer.send(COMPLETE)
        await settled()
        return "accept"

    async with Client(server, revision=NAME, on_elicit=agree) as client:
        assert (await client.call("t")).text == "done"


async def test_a_server_that_never_tells_is_asked_once_more_after_a_while():
    clock = Clock()
    server = in_turn(wanting(), wanting())

    async def agree(question: Elicitation) -> Any:
        return "accept"

    async with Client(server, revision=NAME, timeout=5, on_elicit=agree) as client:
        call = asyncio.create_task(client.call("t"))
        await settled()
        await clock.advance(5.1)
        with pytest.raises(RemoteError, match="Sign in first"):
            await call
    assert server.methods.count("tools/call") == 2


@pytest.mark.parametrize("answer", [None, "cancel"])
async def test_a_person_who_does_not_go_ends_the_call(answer: Any):
    server = in_turn(wanting())
    async with Client(server, revision=NAME, on_elicit=lambda _: answer) as client:
        with pytest.raises(Refused, match="Sign in first"):
            await client.call("t")
    assert server.methods.count("tools/call") == 1


@pytest.mark.parametrize("options", [{}, {"on_elicit": lambda _: "accept", "elicit_modes": ["form"]}])
async def test_who_cannot_ask_gets_the_error(options: Any):
    async with Client(in_turn(wanting()), revision=NAME, **options) as client:
        with pytest.raises(RemoteError, match="Sign in first"):
            await client.call("t")


async def test_where_there_are_no_pages_it_is_an_error_like_any_other():
    server = in_turn(wanting(), name=HANDSHAKE[0])
    async with Client(server, revision=HANDSHAKE[0], on_elicit=lambda _: "accept") as client:
        with pytest.raises(RemoteError, match="Sign in first"):
            await client.call("t")


@pytest.mark.parametrize(
    "data", [{"x": 1}, {"elicitations": [5]}, {"elicitations": [{"message": "x", "requestedSchema": {}}]}]
)
async def test_a_refusal_that_names_no_page_is_invalid(data: Any):
    async with Client(in_turn(wanting(data=data)), revision=NAME, on_elicit=lambda _: "accept") as client:
        with pytest.raises(InvalidAnswer, match="page"):
            await client.call("t")


async def test_a_page_that_must_not_be_opened_is_invalid():
    server = in_turn(wanting({**PAGE, "url": "javascript:x"}))
    async with Client(server, revision=NAME, on_elicit=lambda _: "accept") as client:
        with pytest.raises(InvalidAnswer, match="Only http and https"):
            await client.call("t")


async def test_a_server_that_ends_meanwhile_ends_the_waiting():
    server = in_turn(wanting())
    async with Client(server, revision=NAME, on_elicit=lambda _: "accept") as client:
        call = asyncio.create_task(client.call("t"))
        await until(lambda: "tools/call" in server.methods)
        server.peer.ended.set()
        with pytest.raises(ConnectionLost):
            await call


@pytest.mark.attack("L3")
async def test_a_call_that_wants_thousands_of_pages_opened_is_refused_and_the_user_asked_nothing():
    seen: list[Elicitation] = []
    pages = [{**PAGE, "elicitationId": str(index)} for index in range(3000)]
    server = in_turn(wanting(*pages), DONE)
    async with Client(server, revision=NAME, on_elicit=seen.append) as client:
        with pytest.raises(Refused, match="3000 pages opened for one call; at most 64 are allowed"):
            await client.call("t")
    assert seen == []
