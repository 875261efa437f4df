"""The SKILL.md of a generated command line: what an agent reads before it uses the program."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .program import MARK
from .tool_options import ToolCommand, ToolOption, one_line

MAX_DESCRIPTION = 1024
"""Characters of the description of a skill."""


def skill_text(name: str, title: str, program: str, about: str, commands: Sequence[ToolCommand]) -> str:
    """The file: metadata, how to run the program, and a section for each command."""
    purpose = f"Call the tools of {one_line(title)}: {', '.join(command.name for command in commands)}."
    description = f"{one_line(about)} {purpose}".strip()
    lines = [
        "---",
        f"name: {name}",
        f"description: {json.dumps(description[:MAX_DESCRIPTION], ensure_ascii=False)}",
        "---",
        "",
        f"# {_plain(title)}",
        "",
        f"This file and `{program}` were {MARK}. Quoted texts are those of the server.",
        "",
        "```sh",
        f"python {program} COMMAND --help",
        f"python {program} --format json COMMAND",
        "```",
        "",
        "The result goes to stdout, errors go to stderr, and the exit code is 0 only if the tool succeeded.",
    ]
    for command in commands:
        lines += ["", f"## {command.name}", ""]
        if command.description:
            lines += [f"> {_plain(command.description)}", ""]
        lines += ["```sh", _usage(program, command), "```"]
        if command.options:
            lines += ["", "| option | value | |", "|---|---|---|", *[_row(option) for option in command.options]]
    return "\n".join(lines) + "\n"


def _usage(program: str, command: ToolCommand) -> str:
    words = [f"python {program} {command.name}"]
    for option in command.options:
        text = option.flag if option.kind == "boolean" else f"{option.flag} {option.kind.upper()}"
        words.append(text if option.required else f"[{text}]")
    return " ".join(words)


def _row(option: ToolOption) -> str:
    kind = {"json": "JSON", "boolean": f"`--no-{option.flag[2:]}` for false"}.get(option.kind, option.kind)
    if option.choices:
        kind = "one of " + ", ".join(f"`{_plain(choice)}`" for choice in option.choices)
    if option.many:
        kind += ", several"
    needed = "required" if option.required else ""
    text = ". ".join(part for part in (needed, _plain(option.help)) if part)
    return f"| `{option.flag}` | {kind} | {text} |"


def _plain(text: str) -> str:
    """A text of the server that cannot begin another cell, block or tag."""
    text = one_line(text)
    for char in "\\|`<":
        text = text.replace(char, {"<": "&lt;"}.get(char, f"\\{char}"))
    return text
