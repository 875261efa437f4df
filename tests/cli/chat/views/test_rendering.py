"""Nothing that a server writes is hidden, cut where it matters, or taken for a line of ours."""

import msgspec
import pytest

from dovetail.cli.chat.ui.colours import Colorizer, wants_colour
from dovetail.cli.chat.views.rendering import as_json, command_line, counted, exact, indented, shortened, wrapped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Grüße 漢字 \n\t", "plain Grüße 漢字 \n\t"),
        ("\x1b[2J\x07", "\\u001b[2J\\u0007"),
        ("a\u200bb\u202ec\ufeff\u3164", "a\\u200bb\\u202ec\\ufeff\\u3164"),
        ("\U000e0041", "\\U000e0041"),
        ("\u2028", "\\u2028"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert exact(text) == shown


def test_json_is_exact_and_stays_json() -> None:
    value = {"path": "a\u200bb", "odd": "\\u200b", "list": [1, None, True]}
    assert msgspec.json.decode(as_json(value)) == value


def test_a_command_is_whole_and_its_words_are_apart() -> None:
    words = ("python", "-c", "print('a b')", "x" * 500, "\u202e")
    line = command_line(words)
    assert "x" * 500 in line and "\\u202e" in line and "'print('\"'\"'a b'\"'\"')'" in line


def test_every_line_of_a_server_has_its_margin() -> None:
    assert indented("a\n\nb") == "  | a\n  | \n  | b"
    assert wrapped("one two three four five six\nseven", 20) == "  | one two three four\n  | five six\n  | seven"


def test_what_is_shortened_says_so() -> None:
    assert shortened("a\n b   c", 10) == "a b c"
    assert shortened("abcdefgh", 5) == "abcd…"
    assert [counted(1, "tool"), counted(2, "tool")] == ["1 tool", "2 tools"]


def test_colours_are_put_around_texts_that_are_harmless() -> None:
    assert Colorizer(True).line("a", ("bad", "\x1b[0mb")) == "a\x1b[1;31m\\x1b[0mb\x1b[0m"
    assert Colorizer(False).line("a", ("bad", "b")) == "ab"


@pytest.mark.parametrize(
    ("environ", "terminal", "wanted"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({}, True, False),
    ],
)
def test_colours_are_for_terminals_of_people_who_want_them(
    environ: dict[str, str], terminal: bool, wanted: bool
) -> None:
    assert wants_colour(environ, terminal) is wanted
