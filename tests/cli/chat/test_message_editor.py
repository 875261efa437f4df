"""Messages go through a person's editor and come back as they were, or as the person wants them."""

import pytest

from dovetail.cli.chat.message_editor import as_draft, edited_answer, edited_params, read_draft, words_of
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult, SamplingMessage
from dovetail.types.content import Image, SamplingContent, Text

PICTURE = Image(b"png", "image/png")
MESSAGES = [
    SamplingMessage("user", [Text("Look at this."), PICTURE]),
    SamplingMessage("assistant", Text("I see.\n\nA dot.")),
    SamplingMessage("user", Text("Which colour?")),
]


def test_a_draft_that_nobody_changed_gives_the_same_messages() -> None:
    draft = as_draft(MESSAGES, "Be brief.")
    assert "=== user [1: image image/png] ===" in draft
    assert read_draft(draft, MESSAGES) == ("Be brief.", MESSAGES)


def test_texts_are_changed_left_out_and_added() -> None:
    draft = "=== system ===\n\n=== user [1: image image/png] ===\n=== user ===\nWhat is it?\n=== assistant ===\nHm.\n"
    blocks: list[SamplingContent] = [PICTURE, Text("What is it?")]
    assert read_draft(draft, MESSAGES) == (
        None,
        [SamplingMessage("user", blocks), SamplingMessage("assistant", Text("Hm."))],
    )


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ("no head", "must name the role"),
        ("", "no message is left"),
        ("=== user ===\n  \n", "no message is left"),
        ("=== user [9: image image/png] ===", "number 9"),
    ],
)
def test_what_cannot_be_read_says_why(draft: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_draft(draft, MESSAGES)


def test_only_the_prompt_of_a_request_changes() -> None:
    params = CreateMessageParams(MESSAGES, 10, "Be brief.", temperature=0.5)
    changed = edited_params(params, "=== user ===\nHi")
    assert changed == CreateMessageParams([SamplingMessage("user", Text("Hi"))], 10, None, temperature=0.5)


def test_an_answer_keeps_what_is_no_text() -> None:
    answer = CreateMessageResult("assistant", [Text("old"), PICTURE], "small")
    assert edited_answer(answer, "new").content == [Text("new"), PICTURE]
    assert edited_answer(answer, " ").content == PICTURE
    with pytest.raises(ValueError, match="the answer is empty"):
        edited_answer(CreateMessageResult("assistant", Text("old"), "small"), "")


def test_what_is_no_text_is_named() -> None:
    assert words_of([Text("a"), PICTURE]) == "a\n[image image/png]"
