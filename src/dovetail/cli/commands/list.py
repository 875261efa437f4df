"""`dovetail list TARGET`."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from dovetail.cli import output
from dovetail.cli.definitions.tool_lines import (
    Line,
    full_lines,
    output_width,
    print_lines,
    schema_lines,
    summary_lines,
)
from dovetail.cli.exit_status import CommandFailed
from dovetail.cli.options.client_options import add_client_options, run_with_client
from dovetail.cli.options.targets import add_target_argument
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay
from dovetail.protocol.errors import NotFound

if TYPE_CHECKING:
    from dovetail.client.client import Client
    from dovetail.types.prompts import Prompt
    from dovetail.types.resources import Resource, ResourceTemplate
    from dovetail.types.serialization import Value
    from dovetail.types.tools import Tool

KINDS = ("tools", "resources", "templates", "prompts")


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_target_argument(parser)
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"some of {', '.join(KINDS)} (default: all), or the name of a tool"
    )
    parser.add_argument("--tool", action="append", default=[], metavar="NAME", help="show this tool in full")
    parser.add_argument("--input-schema", action="store_true", help="show the input schema of each tool")
    parser.add_argument("--output-schema", action="store_true", help="show the output schema of each tool")
    add_client_options(parser)


def run_list(options: argparse.Namespace) -> int:
    """List what the server offers."""
    options.tool += [word for word in options.kinds if word not in KINDS]
    options.kinds = [word for word in options.kinds if word in KINDS]
    return run_with_client(options, _list)


async def _list(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    if options.tool:
        await _show_tools(client, options)
        return
    wanted = options.kinds or KINDS
    listed_items = {
        kind: items for kind in KINDS if kind in wanted and (items := await listed(client, kind)) is not None
    }
    _remember(options.target, listed_items)
    if options.kinds and (absent := [kind for kind in options.kinds if kind not in listed_items]):
        raise CommandFailed("not_found", f"This server has no {absent[0]}.")
    if options.format == "json":
        from dovetail.types.serialization import dump

        names = {"templates": "resourceTemplates"}
        output.show_json(
            {names.get(kind, kind): [dump(item) for item in items] for kind, items in listed_items.items()}
        )
        return
    for kind, items in listed_items.items():
        if items and kind == "tools":
            print_lines([(("strong", "Tools"),), *_tool_lines(cast("list[Tool]", items), options)])
        elif items:
            title = kind if kind != "templates" else "resource templates"
            output.show_table(title.capitalize(), _COLUMNS[kind], [_ROWS[kind](item) for item in items])
    if not any(listed_items.values()):
        output.show_text("Nothing.")


async def _show_tools(client: Client, options: argparse.Namespace) -> None:
    """Show the named tools in full."""
    tools = {tool.name: tool for tool in cast("list[Tool]", await listed(client, "tools") or [])}
    for name in options.tool:
        if name not in tools:
            import difflib

            near = difflib.get_close_matches(name, [*tools, *KINDS], 1)
            hint = f"did you mean {near[0]}?" if near else f"the kinds are {', '.join(KINDS)}"
            raise UsageError(f"there is no tool and no kind {name!r}; {hint}")
    if options.format == "json":
        from dovetail.types.serialization import dump

        output.show_json({"tools": [dump(tools[name]) for name in options.tool]})
        return
    for place, name in enumerate(options.tool):
        lines = full_lines(tools[name], output_width())
        print_lines([*([("",)] if place else []), *lines, *_schemas(tools[name], options)])


def _tool_lines(tools: list[Tool], options: argparse.Namespace) -> list[Line]:
    width = output_width()
    return [line for tool in tools for line in (*summary_lines(tool, width), *_schemas(tool, options))]


def _schemas(tool: Tool, options: argparse.Namespace) -> list[Line]:
    lines: list[Line] = []
    if options.input_schema:
        lines += schema_lines("Input schema", tool.input_schema)
    if options.output_schema:
        lines += schema_lines("Output schema", tool.output_schema)
    return lines


def _remember(target: str, listed_items: dict[str, list[Value]]) -> None:
    """Keep the names for shell completion."""
    from dovetail.cli.options.known_names import NameKind, remember_names

    kinds: dict[NameKind, str] = {"tools": "name", "resources": "uri", "prompts": "name"}
    for kind, attribute in kinds.items():
        if kind in listed_items:
            remember_names(target, kind, [getattr(item, attribute) for item in listed_items[kind]])


async def listed(client: Client, kind: str) -> list[Value] | None:
    """All items of a kind; None if the server does not offer the kind."""
    capabilities = client.capabilities
    offers = {"templates": capabilities.resources}.get(kind, getattr(capabilities, kind, None))
    if offers is None:
        return None
    fetch: Callable[[], Awaitable[Any]] = getattr(client, "resource_templates" if kind == "templates" else kind)
    try:
        # Some servers that offer resources have no method for templates.
        return cast("list[Value]", await fetch())
    except NotFound:
        return [] if kind == "templates" else None


def _resource(resource: Resource) -> list[str]:
    return [resource.uri, resource.mime_type or "", _about(resource)]


def _template(template: ResourceTemplate) -> list[str]:
    return [template.uri_template, template.mime_type or "", _about(template)]


def _prompt(prompt: Prompt) -> list[str]:
    arguments = prompt.arguments or []
    words = [argument.name if argument.required else f"[{argument.name}]" for argument in arguments]
    return [prompt.name, " ".join(words), _about(prompt)]


def _about(item: Resource | ResourceTemplate | Prompt) -> str:
    return output.heading(item.description or item.title or "")


_ROWS: dict[str, Callable[[Any], list[str]]] = {
    "resources": _resource,
    "templates": _template,
    "prompts": _prompt,
}
_COLUMNS = {
    "resources": ("uri", "type", "description"),
    "templates": ("uri template", "type", "description"),
    "prompts": ("name", "arguments", "description"),
}
