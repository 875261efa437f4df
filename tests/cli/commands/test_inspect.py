"""`dovetail inspect` and the definitions in `dovetail list`: types, token cost, warnings and portability."""

from pathlib import Path

import pytest

from tests.cli.invoke import DESK, AtTerminal, dovetail

PORTABLE = """
from dovetail import Server

server = Server("inn", version="1.0.0", instructions="Book early.")


@server.tool
def price(nights: int, breakfast: bool = False) -> int:
    '''What a stay costs.'''
    return nights
"""

REFUSED = (
    PORTABLE
    + """
from uuid import UUID


@server.tool
def find(guest: UUID) -> str:
    return "found"
"""
)


@pytest.fixture
def portable(tmp_path: Path) -> str:
    path = tmp_path / "inn.py"
    path.write_text(PORTABLE)
    return str(path)


@pytest.fixture
def refused(tmp_path: Path) -> str:
    path = tmp_path / "refused.py"
    path.write_text(REFUSED)
    return str(path)


def test_inspect_summarizes_a_file(portable: str) -> None:
    out = dovetail("inspect", portable).out
    assert out.startswith("inn 1.0.0\n  revision  2026-07-28, also 2025-11-25,")
    assert "  offers    1 tool\n  says      Book early.\n" in out
    assert "  price(nights: int, breakfast: bool = False) -> int\n      What a stay costs. (about " in out
    assert "estimate: a fourth of the bytes" in out
    assert "Accepted by OpenAI, Anthropic, Gemini, Cursor, VS Code" in out and "Warnings" not in out


def test_inspect_for_scripts_has_schemas_and_tokens(portable: str) -> None:
    result = dovetail("inspect", portable, "--format", "json").result
    assert result["server"] == {"name": "inn", "version": "1.0.0", "title": None}
    assert result["counts"] == {"tools": 1, "resources": 0, "templates": 0, "prompts": 0}
    [tool] = result["tools"]
    assert tool["inputSchema"]["required"] == ["nights"] and tool["outputSchema"] == {"type": "integer"}
    assert result["tokens"]["total"] == tool["tokens"] + result["tokens"]["instructions"]
    assert result["findings"] == result["warnings"] == []


def test_inspect_names_who_refuses_a_schema_and_what_to_do(refused: str) -> None:
    done = dovetail("inspect", refused)
    assert done.code == 0
    assert "  ! tool find: it has no description" in done.out
    assert "  x Gemini:\n" in done.out and "        find.guest: format uuid\n      -> say the format" in done.out


def test_strict_fails_on_findings_and_lists_them_for_scripts(refused: str, portable: str) -> None:
    done = dovetail("inspect", refused, "--strict")
    assert (done.code, done.err) == (5, "dovetail: inn has 1 warning and 1 portability finding\n")
    error = dovetail("inspect", refused, "--strict", "--format", "json").error
    assert error["code"] == "not_portable"
    assert [(each["rule"], each["refusedBy"]) for each in error["findings"]] == [("string-format", ["gemini"])]
    assert dovetail("inspect", portable, "--strict").code == 0


def test_a_profile_can_be_chosen(portable: str) -> None:
    out = dovetail("inspect", portable, "--for", "openai-strict").out
    assert "  x OpenAI (strict):\n      an argument is not required\n        price.breakfast: not required\n" in out
    assert dovetail("inspect", portable, "--for", "nobody").code == 1


def test_inspect_on_an_older_revision(portable: str) -> None:
    result = dovetail("inspect", portable, "--revision", "2025-06-18", "--format", "json").result
    assert (result["revision"], result["revisions"]) == ("2025-06-18", [])


def test_one_tool_is_shown_in_full() -> None:
    out = dovetail("list", DESK, "add", "--input-schema").out
    assert out.startswith("add(a: int, b: int = 1) -> int\n  Add two numbers.\n\nArguments\n  a: int, required\n")
    assert "  b: int, default 1\n" in out and "Returns\n  int\n" in out
    assert 'Input schema\n  {\n    "type": "object"' in out and "Output schema" not in out
    [tool] = dovetail("list", DESK, "--tool", "add", "--format", "json").result["tools"]
    assert tool["name"] == "add"


def test_a_misspelt_tool_or_kind_gets_a_suggestion() -> None:
    done = dovetail("list", DESK, "ad")
    assert (done.code, done.err.splitlines()[0]) == (
        1,
        "dovetail: there is no tool and no kind 'ad'; did you mean add?",
    )
    assert "did you mean tools?" in dovetail("list", DESK, "tool").err


def test_a_long_signature_is_broken_between_its_arguments() -> None:
    with AtTerminal("list", DESK, "tools", columns=60, NO_COLOR="1") as terminal:
        code, seen = terminal.end()
    assert code == 0 and max(map(len, seen.splitlines())) <= 60
    assert '  echo(text: str = "", number: float | None = None,\n          flag: bool = False,' in seen
