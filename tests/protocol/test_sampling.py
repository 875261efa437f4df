"""Requests for a model's answer: which model they would like, and conversations that hold together."""

import pytest

from dovetail.protocol.errors import INVALID_PARAMS, ProtocolError
from dovetail.protocol.sampling import blocks_of, check_conversation, match_model
from dovetail.types.client_features import ModelHint, SamplingMessage
from dovetail.types.content import Role, SamplingContent, Text, ToolResultContent, ToolUse

MODELS = ["claude-3-5-sonnet-20241022", "claude-3-sonnet", "gemini-1.5-pro", "GPT-4o"]


class TestModels:
    @pytest.mark.parametrize(
        ("hints", "chosen"),
        [
            (["sonnet"], "claude-3-5-sonnet-20241022"),
            (["claude-3-sonnet"], "claude-3-sonnet"),
            (["claude-3"], "claude-3-5-sonnet-20241022"),
            (["opus", "gemini"], "gemini-1.5-pro"),
            (["gpt-4O"], "GPT-4o"),
            (["llama"], None),
            ([""], None),
            ([], None),
        ],
    )
    def test_hints_are_parts_of_names_tried_in_order(self, hints: list[str], chosen: str | None):
        assert match_model(hints, MODELS) == chosen
        assert match_model([ModelHint(name) for name in hints], MODELS) == chosen

    def test_a_hint_without_a_name_and_no_hints_at_all_say_nothing(self):
        assert match_model([ModelHint()], MODELS) is None
        assert match_model(None, MODELS) is None
        assert match_model(["claude"], []) is None


def said(*blocks: SamplingContent, role: Role = "user") -> SamplingMessage:
    return SamplingMessage(role, list(blocks) if len(blocks) != 1 else blocks[0])


USE, OTHER_USE = ToolUse("1", "weather", {}), ToolUse("2", "weather", {})
RESULT, OTHER_RESULT = ToolResultContent("1", [Text("fine")]), ToolResultContent("2")


class TestConversations:
    @pytest.mark.parametrize(
        "messages",
        [
            [],
            [said(Text("hi"))],
            [said(Text("hi")), said(USE, role="assistant"), said(RESULT)],
            [
                said(Text("so"), USE, OTHER_USE, role="assistant"),
                said(OTHER_RESULT, RESULT),
                said(Text("and?")),
            ],
        ],
    )
    def test_one_that_holds_together_is_fine(self, messages: list[SamplingMessage]):
        check_conversation(messages)

    @pytest.mark.parametrize(
        ("messages", "wrong"),
        [
            (
                [said(USE, role="assistant"), said(Text("see:"), RESULT)],
                "Tool results mixed with other content",
            ),
            ([said(USE, OTHER_USE, role="assistant"), said(RESULT)], "Tool result missing in request: 2"),
            ([said(USE, role="assistant")], "Tool result missing in request: 1"),
            (
                [said(USE, role="assistant"), said(Text("hm")), said(RESULT)],
                "Tool result missing in request: 1",
            ),
            ([said(Text("hi")), said(RESULT)], "Tool result without a tool use: 1"),
        ],
    )
    def test_one_that_does_not_is_refused(self, messages: list[SamplingMessage], wrong: str):
        with pytest.raises(ProtocolError) as refusal:
            check_conversation(messages)
        assert (refusal.value.code, refusal.value.message) == (INVALID_PARAMS, wrong)

    def test_a_message_has_one_block_or_several(self):
        assert blocks_of(Text("a")) == [Text("a")]
        assert blocks_of([Text("a"), USE]) == [Text("a"), USE]
