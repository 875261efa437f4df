"""Prompts and their messages."""

import msgspec
import pytest

from dovetail.types.content import Text
from dovetail.types.prompts import (
    GetPromptParams,
    GetPromptResult,
    ListPromptsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
)
from dovetail.types.serialization import dump, load


def test_prompts_on_the_wire() -> None:
    listed = ListPromptsResult([Prompt("p", arguments=[PromptArgument("a", required=True)])])
    assert dump(listed) == {"prompts": [{"name": "p", "arguments": [{"name": "a", "required": True}]}]}


def test_messages_hold_one_block() -> None:
    got = GetPromptResult([PromptMessage("user", Text("hi"))], "says hi")
    plain = {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        "description": "says hi",
    }
    assert dump(got) == plain
    assert load(GetPromptResult, plain) == got


def test_arguments_are_strings() -> None:
    assert load(GetPromptParams, {"name": "p", "arguments": {"a": "1"}}).arguments == {"a": "1"}
    with pytest.raises(msgspec.ValidationError, match="arguments"):
        load(GetPromptParams, {"name": "p", "arguments": {"a": 1}})
