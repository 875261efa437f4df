"""The real anthropic library against an endpoint on loopback."""

from base64 import b64encode
from typing import Any

import pytest

from dovetail.host.models.anthropic import AnthropicModel
from dovetail.host.models.contract import Model, TextDelta
from dovetail.host.models.delta_assembly import unreadable
from dovetail.host.models.stream_answer import full_answer
from dovetail.host.models.usage import Usage, usage_of
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult, SamplingMessage, ToolChoice
from dovetail.types.content import Audio, Image, Text, ToolResultContent, ToolUse
from dovetail.types.tools import Tool
from tests.support.model_endpoint import Endpoint, anthropic_answer, endpoint, failure

OK = {"type": "text", "text": "okay"}


def model(told: Endpoint, **options: Any) -> AnthropicModel:
    return AnthropicModel("claude-tiny", base_url=told.url, **{"retries": 0, **options})


def asking(*messages: SamplingMessage, **options: Any) -> CreateMessageParams:
    said = messages or (SamplingMessage(role="user", content=Text(text="Hello")),)
    return CreateMessageParams(messages=list(said), **{"max_tokens": 100, **options})


async def test_a_text_comes_piece_by_piece_and_then_whole() -> None:
    async with endpoint(anthropic_answer({"type": "text", "text": "Hello!"})) as told:
        one = model(told)
        assert isinstance(one, Model)
        events = [event async for event in one.respond(asking())]
        await one.close()
    assert events[:-1] == [TextDelta("Hel"), TextDelta("lo!")]
    assert isinstance(answer := events[-1], CreateMessageResult)
    assert (answer.text, answer.model, answer.stop_reason) == ("Hello!", "claude-tiny-1", "endTurn")
    assert usage_of(answer) == Usage(7, 3)


async def test_what_is_sent_is_what_was_asked() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    params = asking(
        system_prompt="Be brief.",
        temperature=0.5,
        stop_sequences=["END"],
        tools=[Tool(name="look", description="Looks.", input_schema=schema)],
        tool_choice=ToolChoice(mode="required"),
    )
    async with endpoint(anthropic_answer(OK)) as told:
        one = model(told)
        await full_answer(one, params)
        await one.close()
    assert told.asked[0].path == "/v1/messages"
    assert told.asked[0].body == {
        "model": "claude-tiny",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "system": "Be brief.",
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "stream": True,
        "tools": [{"name": "look", "description": "Looks.", "input_schema": schema}],
        "tool_choice": {"type": "any"},
    }


async def test_a_model_without_temperature_is_asked_again_without_it() -> None:
    async with endpoint(failure(400, "temperature: not supported"), anthropic_answer(OK)) as told:
        one = model(told)
        assert (await full_answer(one, asking(temperature=0.5))).text == "okay"
        assert (await full_answer(one, asking(temperature=0.5))).text == "okay"
        await one.close()
    assert ["temperature" in asked.body for asked in told.asked] == [True, False, False]


async def test_tools_images_and_what_cannot_be_sent() -> None:
    messages = [
        SamplingMessage(
            role="user", content=[Text(text="See"), Image(data=b"i", mime_type="image/PNG"), Text(text="")]
        ),
        SamplingMessage(role="assistant", content=[ToolUse(id="1", name="look", input={"city": "Lima"})]),
        SamplingMessage(
            role="user",
            content=[
                ToolResultContent(
                    tool_use_id="1",
                    content=[
                        Text(text="Sunny"),
                        Image(data=b"j", mime_type="image/webp"),
                        Image(data=b"k", mime_type="image/tiff"),
                        Audio(data=b"l", mime_type="audio/wav"),
                    ],
                    is_error=True,
                )
            ],
        ),
        SamplingMessage(role="assistant", content=Text(text=" ")),
        SamplingMessage(role="user", content=Text(text="And?")),
    ]
    async with endpoint(anthropic_answer(OK)) as told:
        one = model(told)
        await full_answer(one, asking(*messages))
        await one.close()

    def image(kind: str, data: bytes) -> dict[str, Any]:
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": b64encode(data).decode()}}

    def text(words: str) -> dict[str, Any]:
        return {"type": "text", "text": words}

    result = [
        text("Sunny"),
        image("image/webp", b"j"),
        text("[Here is an image (image/tiff) that this model cannot be given.]"),
        text("[Here is a sound (audio/wav) that this model cannot be given.]"),
    ]
    assert told.asked[0].body["messages"] == [
        {"role": "user", "content": [text("See"), image("image/png", b"i")]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look", "input": {"city": "Lima"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": result, "is_error": True}]},
        {"role": "user", "content": [text("And?")]},
    ]


async def test_tool_uses_come_back() -> None:
    use = {"type": "tool_use", "id": "t1", "name": "look", "input": '{"city": "Lima"}'}
    empty = {"type": "tool_use", "id": "t2", "name": "now", "input": ""}
    broken = {"type": "tool_use", "id": "t3", "name": "now", "input": "[1]"}
    async with endpoint(anthropic_answer(OK, use, empty, broken, reason="tool_use")) as told:
        one = model(told)
        *_, answer = [event async for event in one.respond(asking())]
        await one.close()
    assert isinstance(answer, CreateMessageResult) and answer.stop_reason == "toolUse"
    assert isinstance(answer.content, list)
    assert answer.content[:3] == [
        Text(text="okay"),
        ToolUse(id="t1", name="look", input={"city": "Lima"}),
        ToolUse(id="t2", name="now", input={}),
    ]
    assert isinstance(last := answer.content[3], ToolUse) and unreadable(last) == "[1]"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("end_turn", "endTurn"),
        ("max_tokens", "maxTokens"),
        ("stop_sequence", "stopSequence"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "contextWindowExceeded"),
    ],
)
async def test_reasons_to_stop(theirs: str, ours: str) -> None:
    async with endpoint(anthropic_answer(OK, reason=theirs)) as told:
        one = model(told)
        assert (await full_answer(one, asking())).stop_reason == ours
        await one.close()


async def test_a_key_is_not_sent_to_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef")
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    async with endpoint(anthropic_answer(OK)) as told:
        for given, sent in ((None, "Bearer none"), ("mine", "Bearer mine")):
            one = model(told, api_key=given)
            await full_answer(one, asking())
            await one.close()
            assert told.asked[-1].headers["authorization"] == sent
        monkeypatch.setenv("ANTHROPIC_BASE_URL", told.url)
        own = AnthropicModel("claude-tiny", retries=0)
        await full_answer(own, asking())
        await own.close()
    assert told.asked[-1].headers["authorization"] == "Bearer sk-ant-0123456789abcdef"
