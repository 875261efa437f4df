"""`dovetail generate-cli`: the program is generated from a real server, checked, and run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli.generate.program import literal, program_source
from dovetail.cli.generate.skill import skill_text
from dovetail.cli.generate.tool_options import ToolOption, tool_commands
from dovetail.types.tools import Tool
from tests.cli.generate.test_project import run
from tests.cli.invoke import DESK, Done, dovetail, environment


def tool(name: str = "t", description: str = "", **properties: object) -> Tool:
    return Tool(name, {"type": "object", "properties": properties}, description=description)


def start(program: Path, *words: str) -> Done:
    return Done(
        subprocess.run([sys.executable, str(program), *words], env=environment(), capture_output=True, timeout=60)
    )


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    done = dovetail("generate-cli", DESK, "-o", str(folder))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Wrote {folder}/the_desk_cli.py with 13 commands, and {folder}/SKILL.md.")
    return folder


def test_the_program_calls_tools_with_typed_options(generated: Path) -> None:
    program = generated / "the_desk_cli.py"
    assert start(program, "add", "--a", "2", "--b", "3").out == "5\n"
    words = ["echo", "--text", "hi", "--number", "1.5", "--flag", "--counts", "1", "2", "--extra", '{"x": 1}']
    assert json.loads(start(program, "--format", "json", *words).out) == {
        "text": "hi",
        "number": 1.5,
        "flag": True,
        "tags": None,
        "counts": [1, 2],
        "extra": {"x": 1},
    }
    done = start(program, "fail")
    assert (done.code, done.out, done.err) == (1, "", "the_desk_cli.py: Tool 'fail' failed: Out of ink.\n")
    done = start(program, "add")
    assert done.code == 2 and "the following arguments are required: --a" in done.err
    assert "Add two numbers." in start(program, "--help").out


def test_the_program_passes_a_linter_a_formatter_and_a_type_checker(generated: Path) -> None:
    run(generated, "ruff", "check", "--isolated", ".")
    run(generated, "ruff", "format", "--isolated", "--check", ".")
    run(generated, "pyright", "--pythonpath", sys.executable, ".")


def test_the_skill_describes_each_command(generated: Path) -> None:
    text = (generated / "SKILL.md").read_text()
    assert text.startswith('---\nname: the-desk\ndescription: "Knock first. Call the tools of The Desk: add, echo')
    assert (
        "\n## add\n\n> Add two numbers.\n\n```sh\npython the_desk_cli.py add --a INTEGER [--b INTEGER]\n```\n" in text
    )
    assert "\n| `--a` | integer | required |\n" in text


def test_generated_files_are_overwritten_and_others_are_not(generated: Path, tmp_path: Path) -> None:
    assert dovetail("generate-cli", DESK, "-o", str(generated)).code == 0
    (tmp_path / "SKILL.md").write_text("mine")
    done = dovetail("generate-cli", DESK, "-o", str(tmp_path))
    assert done.code == 1 and "SKILL.md was not generated: --force overwrites it" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["SKILL.md"]
    assert dovetail("generate-cli", DESK, "-o", str(tmp_path), "--force", "-q").code == 0


@pytest.mark.parametrize(
    ("schema", "kind", "many", "choices"),
    [
        ({"type": "integer"}, "integer", False, ()),
        ({"type": ["integer", "null"]}, "integer", False, ()),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number", False, ()),
        ({"enum": ["a", "b"]}, "string", False, ("a", "b")),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, "string", True, ("a",)),
        ({"type": "array", "items": {"type": "object"}}, "json", False, ()),
        ({"type": "array", "items": {"type": "boolean"}}, "json", False, ()),
        ({"type": ["string", "integer"]}, "json", False, ()),
        ({"$ref": "#/properties/other"}, "boolean", False, ()),
        ({}, "json", False, ()),
        (True, "json", False, ()),
    ],
    ids=str,
)
def test_a_schema_becomes_an_option(schema: object, kind: str, many: bool, choices: tuple[str, ...]) -> None:
    [command] = tool_commands([tool(x=schema, other={"type": "boolean"})])
    option: ToolOption = command.options[0]
    assert (option.kind, option.many, option.choices) == (kind, many, choices)


def test_names_that_clash_or_cannot_be_typed_are_changed() -> None:
    names: dict[str, Any] = {"x y": {}, "x-y": {}, "help": {}, "日本": {}}
    commands = tool_commands([tool("a/b", **names), tool("a b"), tool("!")])
    assert [command.name for command in commands] == ["a-b", "a-b-2", "tool"]
    assert [option.flag for option in commands[0].options] == ["--x-y", "--x-y-2", "--help-2", "--argument"]
    assert [option.argument for option in commands[0].options] == ["x y", "x-y", "help", "日本"]


HOSTILE = '"""); import os; os._exit(9) #\\" \' %(prog)s 100% \x1b[31m\u202e\n```\n# Head | cell <script>'


def test_texts_of_a_hostile_server_stay_texts(tmp_path: Path) -> None:
    commands = tool_commands([tool(HOSTILE, HOSTILE, **{HOSTILE: {"description": HOSTILE, "enum": [HOSTILE, "b"]}})])
    program = tmp_path / "x.py"
    program.write_text(program_source(HOSTILE, "x.py", "https://example.com/mcp", commands), encoding="utf-8")
    run(tmp_path, "ruff", "check", "--isolated", "--ignore", "EXE001", ".")
    run(tmp_path, "ruff", "format", "--isolated", "--check", ".")
    done = start(program, commands[0].name, "--help")
    assert (done.code, done.err) == (0, "") and "100%" in done.out and "\x1b" not in done.out
    skill = skill_text("x", HOSTILE, "x.py", HOSTILE, commands)
    assert "\x1b" not in skill and "<script>" not in skill.split("---\n", 2)[2]
    assert [line for line in skill.splitlines() if line.startswith("# Head")] == []


@pytest.mark.parametrize("text", ["", 'a"b', "it's", '"\'"', "back\\slash", "\n\t\x00", "日本 👋", "\ud800", HOSTILE])
def test_a_literal_has_the_value_of_its_text(text: str) -> None:
    assert eval(literal(text)) == text and "\n" not in literal(text)


def test_a_server_without_tools_has_no_commands(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("from dovetail import Server\nserver = Server('bare')\n")
    assert dovetail("generate-cli", str(tmp_path / "bare.py"), cwd=tmp_path).code == 5
    assert list(tmp_path.glob("*/SKILL.md")) == []
