"""`dovetail call TARGET TOOL key=value…`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dovetail.cli import output
from dovetail.cli.options.client_options import add_client_options, add_target_argument, run_with_client
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay

if TYPE_CHECKING:
    from dovetail.client.client import Client
    from dovetail.types.tools import CallToolResult


def configure_call(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_target_argument(parser)
    parser.add_argument("tool", metavar="TOOL")
    parser.add_argument(
        "arguments", nargs="*", metavar="key=value", help="converted by the tool's schema; key:=JSON as it is"
    )
    parser.add_argument("--json", metavar="OBJECT", help="all arguments at once: JSON, @FILE, or - for stdin")
    parser.add_argument("--save", metavar="DIR", help="save images, audio and other bytes there")
    add_client_options(parser)


def run_call(options: argparse.Namespace) -> int:
    """Call the tool."""
    from dovetail.cli.options.values import read_object

    if options.json is not None:
        if options.arguments:
            raise UsageError("give the arguments as key=value or with --json, not both")
        options.json = read_object(options.json)
    return run_with_client(options, _call)


async def _call(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    arguments = options.json
    if arguments is None:
        arguments = await _arguments(client, options.tool, options.arguments)
    result = await client.call(options.tool, arguments, progress=display.progress)
    display.end_progress()
    if options.format == "json":
        output.show_json(as_json(result))
    else:
        show(result, options.save)


async def _arguments(client: Client, tool: str, words: list[str]) -> dict[str, Any]:
    from dovetail.cli.options.values import read_arguments

    if not words:
        return {}
    schemas = {each.name: each.input_schema for each in await client.tools()}
    return read_arguments(words, schemas.get(tool, {}))


def as_json(result: CallToolResult) -> dict[str, Any]:
    """A result for scripts; `structuredContent` is the bare value on every revision."""
    from dovetail.types.serialization import dump
    from dovetail.types.tools import DATA_MARK

    data = result.data
    shown = dump(result)
    shown.setdefault("content", [])
    shown.setdefault("isError", False)
    shown.pop("resultType", None)
    if data is not None:
        shown["structuredContent"] = data
    meta = {key: value for key, value in (result.meta or {}).items() if key != DATA_MARK}
    shown.pop("_meta", None)
    return {**shown, "_meta": meta} if meta else shown


def show(result: CallToolResult, folder: str | None) -> None:
    """Print a result; structured content replaces text that only repeats it."""
    from dovetail.cli.terminal.contents import ContentRenderer

    renderer = ContentRenderer(folder)
    blocks = list(result.content)
    data = result.data
    if isinstance(data, (dict, list)) and _repeats(result.first_text(), data):
        output.show_value(data)
        blocks = [block for block in blocks if getattr(block, "text", None) != result.first_text()]
    for block in blocks:
        output.show_text(renderer.describe(block))


def _repeats(text: str | None, data: Any) -> bool:
    import msgspec

    if text is None:
        return True
    try:
        return msgspec.json.decode(text) == data
    except (msgspec.DecodeError, RecursionError):
        return False
