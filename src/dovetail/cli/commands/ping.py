"""`dovetail ping TARGET`."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.options.client_options import add_options, add_target, with_client
from dovetail.cli.terminal.progress import Screen

if TYPE_CHECKING:
    from dovetail.client.client import Client


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_target(parser)
    add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Ping."""
    return with_client(options, _ping)


async def _ping(client: Client, options: argparse.Namespace, screen: Screen) -> None:
    from dovetail.types.serialization import dump

    started = time.perf_counter()
    await client.ping()
    took = (time.perf_counter() - started) * 1000
    server = client.server
    if options.format == "json":
        output.show_json(
            {
                "revision": client.revision,
                "server": None if server is None else dump(server),
                "capabilities": dump(client.capabilities),
                "instructions": client.instructions,
                "milliseconds": round(took, 3),
            }
        )
        return
    name = "The server" if server is None else f"{server.title or server.name} {server.version}"
    output.show_text(f"{name} answers on {client.revision} in {took:.1f} ms.")
    if client.instructions:
        output.show_text(client.instructions)
