"""A model that follows a script."""

from pathlib import Path

import pytest

from dovetail.host.models.contract import Model, TextDelta
from dovetail.host.models.scripted import SILENT, ScriptedModel, ScriptLine, ScriptStep, ScriptToolUse
from dovetail.host.models.stream_answer import full_answer
from dovetail.protocol.errors import LocalError
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult, SamplingMessage, ToolChoice
from dovetail.types.content import SamplingContent, Text, ToolResultContent, ToolUse


def user(*content: SamplingContent | str) -> SamplingMessage:
    blocks = [Text(text=block) if isinstance(block, str) else block for block in content]
    return SamplingMessage(role="user", content=blocks)


def asking(*messages: SamplingMessage, choice: ToolChoice | None = None) -> CreateMessageParams:
    return CreateMessageParams(messages=list(messages), max_tokens=10, tool_choice=choice)


def said(answer: CreateMessageResult) -> SamplingMessage:
    return SamplingMessage(role="assistant", content=answer.content)


async def test_words_choose_the_steps_and_results_lead_to_the_next() -> None:
    def summary(params: CreateMessageParams) -> str:
        return f"There are {len(params.messages)} messages."

    script: dict[str, list[ScriptLine]] = {
        "weather": [ScriptStep("Let me see.", (ScriptToolUse("w__look", {"city": "Lima"}),)), summary],
        "": ["Pardon?"],
    }
    model = ScriptedModel(script)
    assert isinstance(model, Model)
    first = await full_answer(model, asking(question := user("The WEATHER, please")))
    assert isinstance(first.content, list)
    use = first.content[1]
    assert isinstance(use, ToolUse)
    assert (use.name, use.input, first.stop_reason) == ("w__look", {"city": "Lima"}, "toolUse")
    result = user(ToolResultContent(tool_use_id=use.id, content=[Text(text="weather: sunny")]))
    second = await full_answer(model, asking(question, said(first), result))
    assert (second.text, second.stop_reason) == ("There are 3 messages.", "endTurn")
    third = await full_answer(model, asking(question, said(first), result, said(second), user("Thanks")))
    assert third.text == "Pardon?"
    assert (await full_answer(model, asking(question, said(first), result, said(second)))).text == SILENT


async def test_a_list_is_taken_step_by_step() -> None:
    model = ScriptedModel(["One.", "Two."])
    first = await full_answer(model, asking(user("a")))
    second = await full_answer(model, asking(user("a"), said(first), user("b")))
    assert (first.text, second.text) == ("One.", "Two.")


async def test_text_comes_word_by_word() -> None:
    events = [event async for event in ScriptedModel(["Hello  big\nworld"]).respond(asking(user("a")))]
    assert events[:-1] == [TextDelta("Hello  "), TextDelta("big\n"), TextDelta("world")]


async def test_where_tools_are_off_it_wants_none() -> None:
    model = ScriptedModel([ScriptStep(use=(ScriptToolUse("a"),))])
    answer = await full_answer(model, asking(user("a"), choice=ToolChoice(mode="none")))
    assert answer.content == [Text(text="")] and answer.stop_reason == "endTurn"


async def test_a_script_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text('{"hello": [{"say": "Hi", "use": [{"name": "a__b", "arguments": {"c": 1}}]}]}')
    answer = await full_answer(ScriptedModel.from_file(file, name="demo"), asking(user("Hello!")))
    assert answer.model == "demo"
    assert isinstance(answer.content, list) and isinstance(answer.content[1], ToolUse)
    assert answer.content[1].input == {"c": 1}
    file.write_text('{"hello": 1}')
    with pytest.raises(LocalError, match=r"script\.json cannot be read"):
        ScriptedModel.from_file(file)
