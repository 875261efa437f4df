"""`dovetail prompt TARGET NAME key=value…`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.options.client_options import add_options, add_target, with_client
from dovetail.cli.terminal.progress import Screen

if TYPE_CHECKING:
    from dovetail.client.client import Client


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_target(parser)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("arguments", nargs="*", metavar="key=value")
    add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Get the prompt."""
    from dovetail.cli.options.values import read_pairs

    options.arguments = read_pairs(options.arguments)
    return with_client(options, _prompt)


async def _prompt(client: Client, options: argparse.Namespace, screen: Screen) -> None:
    from dovetail.cli.terminal.contents import Keeper
    from dovetail.types.serialization import dump

    result = await client.prompt(options.name, options.arguments)
    if options.format == "json":
        output.show_json(dump(result))
        return
    for message in result.messages:
        output.show_text(f"{message.role}: {Keeper(None).describe(message.content)}")
