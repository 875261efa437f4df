"""Requirements on rounds, forms, pages and samplings that nothing else shows."""

import asyncio
import socket
from typing import Any

import pytest

from dovetail import Client, Context, InputRequired, Server
from dovetail.client.elicitation import Elicitation
from dovetail.protocol.errors import InvalidAnswer
from dovetail.types.capabilities import ClientCapabilities, ElicitationCapability
from tests.matrix.connections import on, on_envelope
from tests.support.peer import notification
from tests.support.scripted import Scripted, discovery, welcome
from tests.support.served import served

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
WHO = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM}}
DONE = {"resultType": "complete", "content": []}
MODES = ClientCapabilities(elicitation=ElicitationCapability(form={}, url={}))


def in_turn(*answers: Any, method: str = "tools/call") -> Scripted:
    """A server of the envelope era that gives these answers, one after the other."""
    left = list(answers)
    server = Scripted(server_discover=discovery())
    server.answers[method] = lambda _: left.pop(0)
    return server


def retries(server: Scripted) -> list[dict[str, Any]]:
    return [message for message in server.asked if message.get("method") == "tools/call"]


def asking(**more: Any) -> dict[str, Any]:
    return {"resultType": "input_required", "inputRequests": {"who": WHO}, **more}


@pytest.mark.parametrize("state", ["", " ", "null", '{"a": 1}', "ünïcödé ☃\n\t", "x" * 100_000])
async def test_any_state_comes_back_as_it_was(state: str) -> None:
    server = in_turn(asking(requestState=state), DONE)
    async with Client(server, on_elicit=lambda _: {"name": "Ann"}) as client:
        await client.call("t")
    assert [call["params"].get("requestState") for call in retries(server)] == [None, state]


async def test_where_no_state_came_none_goes_back() -> None:
    """Not even that of the round before."""
    server = in_turn(asking(requestState="first"), asking(), DONE)
    async with Client(server, on_elicit=lambda _: {"name": "Ann"}) as client:
        await client.call("t")
    assert ["requestState" in call["params"] for call in retries(server)] == [False, True, False]


async def test_every_round_has_an_id_of_its_own() -> None:
    server = in_turn(asking(), asking(), DONE)
    async with Client(server, on_elicit=lambda _: {"name": "Ann"}) as client:
        await client.call("t")
    ids = [call["id"] for call in retries(server)]
    assert len(ids) == len(set(ids)) == 3


@on_envelope
@pytest.mark.parametrize("method", ["tools/list", "server/discover", "completion/complete"])
async def test_nothing_else_is_answered_with_a_question(revision: str, method: str) -> None:
    """A completion that wants to ask has no way to, and a list has nobody who could."""
    server = Server("asker")

    @server.prompt
    def review(language: str) -> str:
        return language

    @server.completion("review", "language")
    def languages(value: str, context: dict[str, str]) -> Any:
        return InputRequired({}, state="more")

    params: dict[str, Any] = {}
    if method == "completion/complete":
        params = {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": ""}}
    async with served(server, revision, capabilities=MODES) as caller:
        answer = await caller.ask(method, **params)
    assert answer.get("result", {}).get("resultType", "complete") == "complete"


@on_envelope
async def test_a_round_that_says_nothing_is_not_sent(revision: str) -> None:
    """A handler that asks for nothing has failed."""
    server = Server("asker")

    @server.tool
    async def empty(ctx: Context) -> str | InputRequired:
        return InputRequired({})

    async with served(server, revision, capabilities=MODES) as caller:
        answer = await caller.ask("tools/call", name="empty", arguments={})
    result = answer.get("result", {})
    if result.get("resultType") == "input_required":
        assert result.get("inputRequests") or result.get("requestState")
    else:
        assert "error" in answer or result["isError"]


@on("2025-06-18", "2025-11-25")
async def test_a_question_without_a_mode_is_a_form(revision: str) -> None:
    seen: list[Elicitation] = []

    def on_elicit(question: Elicitation) -> dict[str, Any]:
        seen.append(question)
        return {"name": "Ann"}

    server = Scripted(initialize=welcome(protocolVersion=revision))
    async with Client(server, revision=revision, on_elicit=on_elicit):
        server.peer.request("q", **WHO["params"] | {"method": "elicitation/create"})
        while not [message for message in server.asked if message.get("id") == "q"]:
            await asyncio.sleep(0)
    assert [question.mode for question in seen] == ["form"]
    assert server.asked[-1]["result"] == {"action": "accept", "content": {"name": "Ann"}}


@on_envelope
async def test_a_round_without_mode_is_a_form(revision: str) -> None:
    seen: list[str] = []
    server = in_turn(asking(), DONE)

    def on_elicit(question: Elicitation) -> dict[str, Any]:
        seen.append(question.mode)
        return {"name": "Ann"}

    async with Client(server, revision=revision, on_elicit=on_elicit) as client:
        await client.call("t")
    assert seen == ["form"]


@on("2025-11-25", "2026-07-28")
@pytest.mark.parametrize("url", ["", "no url", "/only/a/path", "https://"])
async def test_a_page_needs_an_address(revision: str, url: str) -> None:
    """What is no URL of a page never reaches a client."""
    server = Server("asker")

    @server.tool
    async def sign_in(ctx: Context) -> str:
        return (await ctx.elicit_url("Sign in", url)).action

    async with served(server, revision, capabilities=MODES) as caller:
        id = caller.begin("tools/call", name="sign_in", arguments={})
        first = await caller.next()
    assert first["id"] == id and "method" not in first, first
    assert first.get("result", {}).get("resultType", "complete") == "complete", first


async def test_news_of_a_page_that_nobody_knows_is_ignored() -> None:
    server = Scripted(
        initialize=welcome(protocolVersion="2025-11-25"), tools_list={"tools": []}, tools_call={"content": []}
    )
    async with Client(server, revision="2025-11-25", on_elicit=lambda _: "accept") as client:
        done = notification("notifications/elicitation/complete", elicitationId="never heard of")
        server.peer.send(done, done, notification("notifications/elicitation/complete"))
        assert (await client.call("t")).content == []
    assert server.methods == ["initialize", "notifications/initialized", "tools/call"]


async def test_a_page_is_never_fetched() -> None:
    """A real address, at which somebody would hear it if a client were to look."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/consent"
        page = {"method": "elicitation/create", "params": {"mode": "url", "message": "Go", "url": url}}
        shown: list[str | None] = []

        def on_elicit(question: Elicitation) -> Any:
            shown.append(question.url)
            return "accept"

        server = in_turn({"resultType": "input_required", "inputRequests": {"page": page}}, DONE)
        async with Client(server, on_elicit=on_elicit) as client:
            await client.call("t")
        assert shown == [url]
        with pytest.raises(BlockingIOError):
            listener.accept()


@on_envelope
async def test_a_page_that_is_refused_ends_the_call(revision: str) -> None:
    page = {"method": "elicitation/create", "params": {"mode": "url", "message": "Go", "url": "file:///etc/passwd"}}
    server = in_turn({"resultType": "input_required", "inputRequests": {"page": page}}, DONE)
    async with Client(server, revision=revision, on_elicit=lambda _: "accept") as client:
        with pytest.raises(InvalidAnswer):
            await client.call("t")
    assert len(retries(server)) == 1


async def test_the_limit_of_tokens_reaches_the_model(revision: str) -> None:
    """Whoever runs the model is told how much it may say, and a request without a limit is none."""
    limits: list[int] = []
    server = Server("sampler")

    @server.tool
    async def suggest(ctx: Context) -> str:
        return (await ctx.sample("Suggest", max_tokens=7)).text

    def on_sample(request: Any) -> str:
        limits.append(request.max_tokens)
        return "ok"

    async with Client(server, revision=revision, on_sample=on_sample) as client:
        assert (await client.call("suggest")).text == "ok"
    assert limits == [7]
