"""ClientRequests as values: what they ask, and which clients are not asked."""

from typing import Any

import pytest

from dovetail.protocol.errors import LocalError, MissingCapability
from dovetail.protocol.revisions import REVISIONS
from dovetail.server.mrtr.client_requests import Answer, ClientRequests, answer_of
from dovetail.server.mrtr.forms import form_for
from dovetail.types.capabilities import ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability
from dovetail.types.client_features import (
    ElicitParams,
    ElicitRequest,
    ElicitResult,
    InputRequired,
    RootsRequest,
    SamplingMessage,
)
from dovetail.types.content import Audio, Image, Text, ToolResultContent, ToolUse
from dovetail.types.serialization import dump
from dovetail.types.tools import Tool

ALL = ClientCapabilities(
    elicitation=ElicitationCapability(form={}, url={}),
    sampling=SamplingCapability(tools={}),
    roots=RootsCapability(),
)
NEWEST = REVISIONS["2026-07-28"]


def questions(can: ClientCapabilities = ALL, revision: str = "2026-07-28") -> ClientRequests:
    return ClientRequests(REVISIONS[revision], can)


def test_a_form() -> None:
    params = questions().elicit("How many?", int).params
    assert dump(params) == {
        "message": "How many?",
        "mode": "form",
        "requestedSchema": {
            "type": "object",
            "properties": {"value": {"type": "integer"}},
            "required": ["value"],
        },
    }


def test_a_prompt_is_text_content_or_a_conversation() -> None:
    def sent(prompt: Any) -> list[dict[str, Any]]:
        return dump(questions().sample(prompt, max_tokens=5).params)["messages"]

    text = {"type": "text", "text": "Hi"}
    assert sent("Hi") == [{"role": "user", "content": text}]
    assert sent(Text("Hi")) == [{"role": "user", "content": text}]
    picture, sound = Image(b"\x89", "image/png"), Audio(b"RIFF", "audio/wav")
    kinds = [message["content"]["type"] for message in sent(["Hi", picture, sound])]
    assert kinds == ["text", "image", "audio"]
    talk = [
        "Weather?",
        SamplingMessage("assistant", ToolUse("1", "weather", {"city": "Lima"})),
        SamplingMessage("user", [ToolResultContent("1", [Text("sunny")])]),
    ]
    assert [message["role"] for message in sent(talk)] == ["user", "assistant", "user"]


def test_what_can_be_said_about_a_sample() -> None:
    tool = Tool("weather", {"type": "object"})
    request = questions().sample(
        "Hi",
        max_tokens=5,
        system="Be kind",
        temperature=0.5,
        stop=["."],
        tools=[tool],
        tool_choice="required",
        models=["small", "tiny"],
        cost=0.9,
        speed=0.1,
        intelligence=0.2,
        include_context="none",
        metadata={"a": 1},
    )
    sent = dump(request.params)
    assert sent["systemPrompt"] == "Be kind"
    assert sent["stopSequences"] == ["."]
    assert sent["toolChoice"] == {"mode": "required"}
    assert sent["tools"][0]["name"] == "weather"
    assert sent["modelPreferences"] == {
        "hints": [{"name": "small"}, {"name": "tiny"}],
        "costPriority": 0.9,
        "speedPriority": 0.1,
        "intelligencePriority": 0.2,
    }


def test_an_answer_is_of_the_type_that_the_form_was_made_from() -> None:
    assert answer_of(ElicitResult("accept", {"value": 3}), form_for(int)) == Answer("accept", 3)
    assert answer_of(ElicitResult("decline"), form_for(int)) == Answer("decline")
    assert not answer_of(ElicitResult("cancel"), form_for(int)).accepted
    assert answer_of(ElicitResult("accept", {"value": 3}), form_for(int)).data == 3
    assert answer_of(ElicitResult("accept"), None, "visit").id == "visit"


FORM = lambda ask: ask.elicit("?", bool)  # noqa: E731
PAGE = lambda ask: ask.elicit_url("?", "https://a.example")  # noqa: E731
SAMPLE = lambda ask: ask.sample("?", max_tokens=1)  # noqa: E731
TOOLS = lambda ask: ask.sample("?", max_tokens=1, tools=[Tool("t", {"type": "object"})])  # noqa: E731
ROOTS = lambda ask: ask.roots()  # noqa: E731


def can(**capabilities: Any) -> ClientCapabilities:
    return ClientCapabilities(**capabilities)


@pytest.mark.parametrize(
    ("ask", "capabilities", "required"),
    [
        (FORM, can(), {"elicitation": {"form": {}}}),
        (FORM, can(elicitation=ElicitationCapability(url={})), {"elicitation": {"form": {}}}),
        (PAGE, can(), {"elicitation": {"url": {}}}),
        (PAGE, can(elicitation=ElicitationCapability()), {"elicitation": {"url": {}}}),
        (SAMPLE, can(), {"sampling": {}}),
        (TOOLS, can(sampling=SamplingCapability()), {"sampling": {"tools": {}}}),
        (ROOTS, can(), {"roots": {}}),
    ],
)
def test_a_client_is_asked_only_what_it_can_answer(ask: Any, capabilities: ClientCapabilities, required: Any) -> None:
    with pytest.raises(MissingCapability) as caught:
        ask(questions(capabilities))
    assert caught.value.required == required
    assert caught.value.as_protocol_error().data == {"requiredCapabilities": required}
    asked = ask(questions())
    questions().check(InputRequired({"a": asked}))
    with pytest.raises(MissingCapability):
        questions(capabilities).check(InputRequired({"a": asked}))


def test_an_empty_declaration_means_forms() -> None:
    assert questions(can(elicitation=ElicitationCapability())).elicit("?", bool)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
@pytest.mark.parametrize("ask", [FORM, PAGE])
def test_a_revision_without_elicitation_has_none_whatever_its_client_says(revision: str, ask: Any) -> None:
    with pytest.raises(MissingCapability):
        ask(questions(ALL, revision))


def test_pages_came_later_than_forms() -> None:
    assert questions(ALL, "2025-06-18").elicit("?", bool)
    with pytest.raises(MissingCapability):
        questions(ALL, "2025-06-18").elicit_url("?", "https://a.example")


def test_questions_made_by_hand_are_checked_too() -> None:
    page = ElicitRequest(ElicitParams("?", mode="url", url="https://a.example"))
    made = InputRequired({"a": page, "b": RootsRequest()})
    questions().check(made)
    questions().check(InputRequired(state="only"))
    with pytest.raises(MissingCapability, match="roots"):
        questions(can(elicitation=ElicitationCapability(url={}))).check(made)


@pytest.mark.parametrize(("action", "verb"), [("decline", "declined"), ("cancel", "cancelled")])
def test_data_that_the_user_did_not_give_is_an_error_that_says_what_to_look_at(action: Any, verb: str):
    with pytest.raises(LocalError, match=f"the user {verb}: look at answer.accepted first"):
        _ = Answer[int](action).data
