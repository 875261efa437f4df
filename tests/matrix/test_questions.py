"""What servers ask of clients, on every revision and transport: forms, pages, models, roots."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Refused, ToolFailed
from dovetail.protocol.errors import MISSING_CAPABILITY, RemoteError
from dovetail.protocol.revisions import REVISIONS
from dovetail.types.client_features import CreateMessageResult
from dovetail.types.content import Text, ToolUse
from tests.matrix import eliciting_server
from tests.matrix.connections import Place, Setting, Transport, connected, on, on_envelope, on_handshake
from tests.support.oracle import Oracle
from tests.support.waiting import until

FORMS = ("2025-06-18", "2025-11-25", "2026-07-28")
RICH = FORMS[1:]
WITHOUT_FORMS = ("2024-11-05", "2025-03-26")


def where(transport: Transport) -> Place:
    return Place(transport, eliciting_server.build, (sys.executable, eliciting_server.__file__))


def answering(transport: Transport, revision: str, **options: Any) -> Any:
    """A client that answers, and the oracle that holds every message against the schema."""
    return connected(where(transport), revision, **options)


def direct(revision: str) -> bool:
    return REVISIONS[revision].server_requests == "direct"


def asked(oracle: Oracle, revision: str, method: str) -> list[dict[str, Any]]:
    """The params of every question of a method, however it travelled."""
    if direct(revision):
        return [message.params for message in oracle.sent_by("server", method)]
    rounds = [message.body["result"].get("inputRequests", {}) for message in results(oracle)]
    return [one.get("params", {}) for each in rounds for one in each.values() if one["method"] == method]


def results(oracle: Oracle) -> list[Any]:
    return [message for message in oracle.sent_by("server") if "result" in message.body]


ORDER = {"name": "Ann", "amount": 2, "size": "small", "colour": "#0f0"}


@on(*FORMS)
async def test_a_form_is_filled_in(transport: Transport, revision: str) -> None:
    async with answering(transport, revision, on_elicit=lambda _: ORDER) as made:
        result = await made.client.call("order")
        assert result.data == {"amount": 3, "colour": "GREEN", "wrapped": True, "note": None}
        [params] = asked(made.oracle, revision, "elicitation/create")
        assert params["message"] == "What will it be?"
        assert params["requestedSchema"]["required"] == ["name", "amount", "size", "colour"]


@on(*FORMS)
@pytest.mark.parametrize(("said", "action"), [(None, "decline"), ("cancel", "cancel")])
async def test_the_person_may_say_no(transport: Transport, revision: str, said: Any, action: str) -> None:
    async with answering(transport, revision, on_elicit=lambda _: said) as made:
        assert (await made.client.call("order")).data == {"action": action}


@on(*RICH)
async def test_several_choices_of_a_list_are_accepted(transport: Transport, revision: str) -> None:
    async with answering(transport, revision, on_elicit=lambda _: {"chosen": ["ham", "egg"]}) as made:
        assert (await made.client.call("pizza")).data == ["ham", "egg"]


@on("2025-06-18")
async def test_a_form_that_the_revision_cannot_show_is_not_asked(transport: Transport, revision: str) -> None:
    async with answering(transport, revision, on_elicit=lambda _: {}) as made:
        with pytest.raises(ToolFailed, match="chosen"):
            await made.client.call("pizza")
        assert asked(made.oracle, revision, "elicitation/create") == []


@on(*FORMS)
async def test_two_questions_one_after_the_other(transport: Transport, revision: str) -> None:
    heard: list[float] = []

    def answer(question: Any) -> Any:
        return {"value": 4 if question.message == "First?" else 5}

    async with answering(transport, revision, on_elicit=answer) as made:
        result = await made.client.call("chain", progress=lambda progress, *_: heard.append(progress))
        assert result.data == [4, 8, 5, 1]
        assert heard == [1, 2, 3]
        messages = [params["message"] for params in asked(made.oracle, revision, "elicitation/create")]
        assert messages == ["First?", "8?"]
        calls = made.oracle.sent_by("client", "tools/call")
        assert len(calls) == (1 if direct(revision) else 3)


def say(_: Any) -> str:
    return "A cat"


@on(*FORMS)
async def test_concurrent_questions_are_all_answered(transport: Transport, revision: str, tmp_path: Path) -> None:
    options = {"on_elicit": lambda _: {"value": True}, "on_sample": say, "roots": [tmp_path]}
    async with answering(transport, revision, **options) as made:
        assert (await made.client.call("together")).data == [True, "A cat by unknown", 1]
        if not direct(revision):
            assert len(made.oracle.sent_by("client", "tools/call")) == 2


async def test_a_model_is_asked(transport: Transport, revision: str) -> None:
    async with answering(transport, revision, on_sample=say) as made:
        assert (await made.client.call("sample")).data == "A cat by unknown"
        [params] = asked(made.oracle, revision, "sampling/createMessage")
        assert (params["maxTokens"], params["systemPrompt"]) == (9, "Be brief")
        assert [message["content"]["type"] for message in params["messages"]] == ["text", "image"]


@on(*RICH)
async def test_a_model_may_use_tools(transport: Transport, revision: str) -> None:
    def use(_: Any) -> CreateMessageResult:
        return CreateMessageResult("assistant", [Text("Hm"), ToolUse("1", "weather", {})], "m", "toolUse")

    async with answering(transport, revision, on_sample=use, sample_tools=True) as made:
        assert (await made.client.call("sample_tools")).data == " weather"
        [params] = asked(made.oracle, revision, "sampling/createMessage")
        assert params["modelPreferences"] == {"hints": [{"name": "small"}]}
        assert params["toolChoice"] == {"mode": "auto"}


async def test_the_roots_are_asked_for(transport: Transport, revision: str, tmp_path: Path) -> None:
    async with answering(transport, revision, roots=[tmp_path]) as made:
        assert (await made.client.call("roots")).data == [tmp_path.as_uri()]


@on_handshake
async def test_a_refused_sample_is_an_error_that_the_handler_sees(transport: Transport, revision: str) -> None:
    def refuse(_: Any) -> str:
        raise Refused("no")

    async with answering(transport, revision, on_sample=refuse) as made:
        result = await made.client.call("sample_kindly")
        assert result.text == "refused: User rejected sampling request"
        [question] = made.oracle.sent_by("server", "sampling/createMessage")
        assert made.oracle.answer(question)["error"]["code"] == -1


@on_envelope
async def test_a_refused_sample_ends_the_call(transport: Transport, revision: str) -> None:
    def refuse(_: Any) -> str:
        raise Refused("no")

    async with answering(transport, revision, on_sample=refuse) as made:
        with pytest.raises(Refused):
            await made.client.call("sample_kindly")
        assert len(made.oracle.sent_by("client", "tools/call")) == 1


NEEDS = {
    "order": {"elicitation": {"form": {}}},
    "page": {"elicitation": {"url": {}}},
    "sample": {"sampling": {}},
    "roots": {"roots": {}},
    "by_hand": {"elicitation": {"form": {}}},
}


@pytest.mark.parametrize("tool", NEEDS)
async def test_a_client_is_not_asked_what_it_cannot_answer(transport: Transport, revision: str, tool: str) -> None:
    async with answering(transport, revision) as made:
        if direct(revision):
            with pytest.raises(ToolFailed, match=r"The client does not support|Revision \S+ has no"):
                await made.client.call(tool)
        else:
            with pytest.raises(RemoteError) as caught:
                await made.client.call(tool)
            assert caught.value.code == MISSING_CAPABILITY
            assert caught.value.data == {"requiredCapabilities": NEEDS[tool]}
        assert nothing_asked(made, revision)


def nothing_asked(made: Setting, revision: str) -> bool:
    methods = ("elicitation/create", "sampling/createMessage", "roots/list")
    return not any(asked(made.oracle, revision, method) for method in methods)


@pytest.mark.parametrize("use", ["prompt", "resource"])
async def test_prompts_and_resources_do_not_ask_either(transport: Transport, revision: str, use: str) -> None:
    async with answering(transport, revision) as made:
        with pytest.raises(RemoteError, match=r"does not support elicitation|has no elicitation") as caught:
            await (made.client.prompt("greet") if use == "prompt" else made.client.read("note://sea"))
        assert caught.value.code == (-32603 if direct(revision) else MISSING_CAPABILITY)
        assert nothing_asked(made, revision)


async def test_a_handler_may_do_without(transport: Transport, revision: str) -> None:
    why = "The client does not support elicitation"
    if REVISIONS[revision].form == "absent":
        why = f"Revision {revision} has no elicitation, so that the client cannot be asked"
    async with answering(transport, revision) as made:
        assert (await made.client.call("careful")).data == f"without: {why}"


@on(*WITHOUT_FORMS)
async def test_older_revisions_have_no_forms(transport: Transport, revision: str) -> None:
    async with answering(transport, revision, on_elicit=lambda _: {"value": True}) as made:
        assert (await made.client.call("careful")).data.startswith("without")
        assert nothing_asked(made, revision)


@on(*FORMS)
async def test_input_required_results_may_be_answered_by_hand(transport: Transport, revision: str) -> None:
    async with answering(transport, revision, on_elicit=lambda _: {"value": True}) as made:
        assert (await made.client.call("by_hand")).data == "{'value': True} my state"


@on(*FORMS)
async def test_prompts_and_resources_ask(transport: Transport, revision: str) -> None:
    async with answering(transport, revision, on_elicit=lambda _: {"value": "Ann"}) as made:
        prompt = await made.client.prompt("greet")
        assert prompt.messages[0].content == Text("Dear Ann")
        contents = (await made.client.read("note://sea")).contents
        assert contents[0].text == "sea: Ann"  # type: ignore[union-attr]


@on(*RICH)
async def test_a_page_is_opened(transport: Transport, revision: str) -> None:
    opened: list[Any] = []

    def open_page(question: Any) -> Any:
        opened.append(question)
        return "accept"

    async with answering(transport, revision, on_elicit=open_page) as made:
        assert (await made.client.call("page")).data == "accept"
        assert [question.url for question in opened] == ["https://pay.example/1"]
        if direct(revision):  # with replicas it travels on another stream than the answer
            await until(lambda: made.oracle.sent_by("server", "notifications/elicitation/complete"))
        news = made.oracle.sent_by("server", "notifications/elicitation/complete")
        ids = [params.get("elicitationId") for params in asked(made.oracle, revision, "elicitation/create")]
        assert [each.params["elicitationId"] for each in news] == [id for id in ids if id is not None]
        assert len(news) == (1 if direct(revision) else 0)


@on(*RICH)
async def test_a_page_must_be_visited_first(transport: Transport, revision: str) -> None:
    async with answering(transport, revision, on_elicit=visit(lambda: made.client)) as made:
        assert (await made.client.call("behind_page", user="ann")).data == "hello ann"
        refusals = [message for message in made.oracle.sent_by("server") if "error" in message.body]
        assert [refusal.body["error"]["code"] for refusal in refusals] == ([-32042] if direct(revision) else [])


def visit(client: Callable[[], Client]) -> Any:
    async def on_elicit(question: Any) -> str:
        assert question.url == "https://in.example"
        if question.id is not None:
            await client().call("been_there", user=question.id)
        return "accept"

    return on_elicit
