"""`dovetail list TARGET`."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from dovetail.cli import output
from dovetail.cli.exit_status import CommandFailed
from dovetail.cli.options.client_options import add_client_options, add_target_argument, run_with_client
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
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"some of {', '.join(KINDS)} (default: all)")
    add_client_options(parser)


def run_list(options: argparse.Namespace) -> int:
    """List what the server offers."""
    if unknown := [kind for kind in options.kinds if kind not in KINDS]:
        raise UsageError(f"there is no kind {unknown[0]!r}; there are {', '.join(KINDS)}")
    return run_with_client(options, _list)


async def _list(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    from dovetail.types.serialization import dump

    wanted = options.kinds or KINDS
    listed_items = {
        kind: items for kind in KINDS if kind in wanted and (items := await listed(client, kind)) is not None
    }
    if options.kinds and (absent := [kind for kind in options.kinds if kind not in listed_items]):
        raise CommandFailed("not_found", f"This server has no {absent[0]}.")
    if options.format == "json":
        names = {"templates": "resourceTemplates"}
        output.show_json(
            {names.get(kind, kind): [dump(item) for item in items] for kind, items in listed_items.items()}
        )
        return
    for kind, items in listed_items.items():
        if items:
            title = kind if kind != "templates" else "resource templates"
            output.show_table(title.capitalize(), _COLUMNS[kind], [_ROWS[kind](item) for item in items])
    if not any(listed_items.values()):
        output.show_text("Nothing.")


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


def _tool(tool: Tool) -> list[str]:
    return [tool.name, _parameters(tool.input_schema), _about(tool)]


def _resource(resource: Resource) -> list[str]:
    return [resource.uri, resource.mime_type or "", _about(resource)]


def _template(template: ResourceTemplate) -> list[str]:
    return [template.uri_template, template.mime_type or "", _about(template)]


def _prompt(prompt: Prompt) -> list[str]:
    arguments = prompt.arguments or []
    words = [argument.name if argument.required else f"[{argument.name}]" for argument in arguments]
    return [prompt.name, " ".join(words), _about(prompt)]


def _parameters(schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    names = [name if name in required else f"[{name}]" for name in schema.get("properties", {})]
    return " ".join(sorted(names, key=lambda name: name.startswith("[")))


def _about(item: Tool | Resource | ResourceTemplate | Prompt) -> str:
    return output.heading(item.description or item.title or "")


_ROWS: dict[str, Callable[[Any], list[str]]] = {
    "tools": _tool,
    "resources": _resource,
    "templates": _template,
    "prompts": _prompt,
}
_COLUMNS = {
    "tools": ("name", "arguments", "description"),
    "resources": ("uri", "type", "description"),
    "templates": ("uri template", "type", "description"),
    "prompts": ("name", "arguments", "description"),
}
