"""A typed line is a command or a message; a message may begin with a slash."""

import pytest

from dovetail.cli.chat.input_line import TypedCommand, TypedMessage, read_line
from dovetail.cli.chat.session import NumberedResource, mentioned_resources
from dovetail.cli.parser import UsageError

COMMANDS = ("/tools", "/call", "/quit")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "hello"),
        ("  hello", "hello"),
        (" /tools", "/tools"),
        ("//tools and more", "/tools and more"),
        ("/etc/hosts says what?", "/etc/hosts says what?"),
        ("/usr/bin/it's", "/usr/bin/it's"),
        ("", ""),
    ],
)
def test_a_message_is_sent_as_it_is(text: str, message: str) -> None:
    assert read_line(text, COMMANDS) == TypedMessage(message)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("/tools", "/tools", []),
        ("/call add a=1 'b=x y'", "/call", ["add", "a=1", "b=x y"]),
        ("/mcp.desk.letter to=Ann", "/mcp.desk.letter", ["to=Ann"]),
        ("/mcp.a/b.c", "/mcp.a/b.c", []),
    ],
)
def test_a_command_has_words(text: str, name: str, words: list[str]) -> None:
    assert read_line(text, COMMANDS) == TypedCommand(name, words)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/tool", "there is no command /tool; did you mean /tools?"),
        ("/xyzzy", "there is no command /xyzzy; /help lists them all. To send it as a message, begin with a space"),
        ("/call 'x", "cannot parse this line: No closing quotation"),
    ],
)
def test_a_line_that_is_neither_says_what_to_do(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_line(text, COMMANDS)
    assert str(caught.value) == said


def test_resources_are_mentioned_by_server_and_uri() -> None:
    text = "Compare @desk:desk://note, @desk:desk://note and (@x:y) with @other:a:b? ann@desk:no @nobody:x @desk:"
    assert mentioned_resources(text, {"desk", "other"}) == [
        NumberedResource("desk", "desk://note"),
        NumberedResource("other", "a:b"),
    ]
