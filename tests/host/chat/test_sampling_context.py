"""What of a conversation goes along when a server asks a model."""

from dovetail.host.chat.sampling_context import context_for
from dovetail.protocol.sampling import check_conversation
from dovetail.types.client_features import SamplingMessage
from dovetail.types.content import SamplingContent, Text, ToolResultContent, ToolUse


def said(role: str, *blocks: SamplingContent) -> SamplingMessage:
    return SamplingMessage("user" if role == "user" else "assistant", list(blocks))


TALK = [
    said("user", Text("What is the weather, and what do I owe?")),
    said("assistant", ToolUse("1", "sky__weather", {"city": "Lima"}), ToolUse("2", "bank__balance", {})),
    said("user", ToolResultContent("1", [Text("sunny")]), ToolResultContent("2", [Text("12 €")])),
    said("assistant", Text("Sun, and 12 €.")),
]
OWNERS = {"1": "sky", "2": "bank"}


def words(messages: list[SamplingMessage]) -> list[tuple[str, str]]:
    return [
        (message.role, block.text)
        for message in messages
        for block in (message.content if isinstance(message.content, list) else [message.content])
        if isinstance(block, Text)
    ]


def test_this_server_means_what_it_was_asked_and_answered_and_nobody_elses_words() -> None:
    assert words(context_for("sky", "thisServer", TALK, OWNERS)) == [
        ("assistant", '[called sky__weather with {"city":"Lima"}]'),
        ("user", "sunny"),
    ]


def test_all_servers_means_everything() -> None:
    told = context_for("sky", "allServers", TALK, OWNERS)
    assert [text for _, text in words(told)] == [
        "What is the weather, and what do I owe?",
        '[called sky__weather with {"city":"Lima"}]',
        "[called bank__balance with {}]",
        "sunny",
        "12 €",
        "Sun, and 12 €.",
    ]
    check_conversation(told)


def test_a_server_that_said_nothing_has_no_context() -> None:
    assert context_for("other", "thisServer", TALK, OWNERS) == []
