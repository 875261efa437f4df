"""A form for a tool that is run by hand, made of a schema that a server wrote."""

import io
from contextlib import nullcontext
from typing import Any

from dovetail.cli.chat.tool_form import fill, problems_of
from dovetail.cli.chat.ui.line_ui import LineUI


class Typist:
    """Types what a test says, and keeps what it was asked."""

    def __init__(self, page: io.StringIO, *answers: str) -> None:
        self._page = page
        self._answers = list(answers)

    def question(self) -> Any:
        return nullcontext()

    async def prompt(self, prompt: str) -> str:
        self._page.write(f"{prompt}\n")
        return self._answers.pop(0)


async def filled(schema: dict[str, Any], *answers: str) -> tuple[dict[str, Any] | None, str]:
    page = io.StringIO()
    given = await fill(LineUI(Typist(page, *answers), page), schema)
    return given, page.getvalue()


async def test_fields_are_asked_for_and_read_by_their_types() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": ["integer", "null"]}, "way": {"enum": ["up", "down"], "type": "string"}},
        "required": ["n"],
    }
    given, page = await filled(schema, "x", "3", "down", "y")
    assert given == {"n": 3, "way": "down"}
    assert "  n (integer or null): " in page and "  one of up, down" in page


async def test_no_word_of_a_server_begins_a_line() -> None:
    field = {"type": "string", "description": "a\nyou> b", "enum": ["x\nyou> c"], "default": "d\nyou> e"}
    given, page = await filled({"type": "object", "properties": {"f\nyou> g\x1b[2J": field}}, "", "n")
    assert given is None
    assert not any(line.startswith("you>") for line in page.split("\n")) and "\x1b" not in page


def test_what_is_wrong_is_said() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert problems_of(schema, {"a": 1}) == []
    assert problems_of(schema, {}) and problems_of(schema, {"a": "x"})
    assert "cannot be used" in problems_of({"type": 3}, {})[0]
