"""A form for the arguments of a tool, converted by the tool's schema."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from dovetail.cli.chat.ui.contract import ChatUI
from dovetail.cli.chat.views.rendering import as_json, indented, one_line, shortened
from dovetail.cli.options.values import read_arguments
from dovetail.cli.parser import UsageError
from dovetail.protocol.errors import LocalError
from dovetail.runtime.thread_pool import run_in_thread


async def fill(ui: ChatUI, schema: dict[str, Any]) -> dict[str, Any] | None:
    """Ask for the arguments; None if the user aborts."""
    fields: Any = schema.get("properties")
    required: list[Any] = schema.get("required", [])
    arguments: dict[str, Any] = {}
    for name, field in cast("dict[str, Any]", fields).items() if isinstance(fields, dict) else ():
        about = cast("dict[str, Any]", field) if isinstance(field, dict) else {}
        await _ask(ui, schema, name, about, name in required, arguments)
    while True:
        ui.say(indented(as_json(arguments), "  "))
        if problems := await run_in_thread(problems_of, schema, arguments):
            ui.say(("bad", f"  {'; '.join(problems)}"))
        key = await ui.key({"y": "call", "e": "edit", "n": "cancel"})
        if key == "n":
            return None
        if key == "e":
            arguments = await _edited(ui, arguments)
        elif not problems:
            return arguments


async def _ask(
    ui: ChatUI, schema: dict[str, Any], name: str, field: dict[str, Any], required: bool, into: dict[str, Any]
) -> None:
    kind, default = field.get("type", "anything"), field.get("default")
    if field.get("description"):
        ui.say(("dim", f"  {shortened(str(field['description']), 200)}"))
    if field.get("enum"):
        ui.say(("dim", f"  one of {', '.join(one_line(str(value)) for value in field['enum'])}"))
    kind = " or ".join(map(str, cast("list[Any]", kind))) if isinstance(kind, list) else kind
    about = f"{kind}" if required else f"{kind}, optional"
    shown = "" if default is None else f" [{msgspec.json.encode(default).decode()}]"
    while True:
        text = await ui.prompt(f"  {one_line(f'{name} ({about}){shown}')}: ")
        if not text and (not required or default is not None):
            return
        try:
            given = read_arguments([f"{name}={text}"], schema)
            problems = await run_in_thread(problems_of, {**schema, "required": []}, given)
        except UsageError as problem:
            problems = [str(problem)]
            given = {}
        if not problems:
            into.update(given)
            return
        ui.say(("bad", f"  {'; '.join(problems)}"))


async def _edited(ui: ChatUI, arguments: dict[str, Any]) -> dict[str, Any]:
    text: str | None = as_json(arguments)
    while True:
        text = await ui.edit(text or "", "arguments")
        if text is None:
            return arguments
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError) as problem:
            ui.say(("bad", f"  This is not a JSON object: {problem}"))


def problems_of(schema: dict[str, Any], arguments: dict[str, Any]) -> list[str]:
    """Validation errors of arguments; called in a thread, since a server wrote the schema."""
    from dovetail.schema.validation import compile_schema

    try:
        validator = compile_schema(schema)
    except LocalError as problem:
        return [f"the tool's schema cannot be used: {problem}"]
    return [] if validator.is_valid(arguments) else validator.problems(arguments)
