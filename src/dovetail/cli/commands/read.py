"""`dovetail read TARGET URI`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.exit_status import USAGE, Failed
from dovetail.cli.options.client_options import add_options, add_target, with_client
from dovetail.cli.terminal.progress import Screen

if TYPE_CHECKING:
    from dovetail.client.client import Client


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_target(parser)
    parser.add_argument("uri", metavar="URI")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the contents there, byte for byte")
    add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Read the resource."""
    return with_client(options, _read)


async def _read(client: Client, options: argparse.Namespace, screen: Screen) -> None:
    from dovetail.cli.terminal.contents import Keeper, bytes_of
    from dovetail.types.serialization import dump

    result = await client.read(options.uri)
    if options.output is not None:
        _write(options.output, bytes_of(result.contents))
    if options.format == "json":
        output.show_json(dump(result))
    elif options.output is None:
        if sys.stdout.isatty():
            for part in result.contents:
                output.show_text(Keeper(None).describe(part))
        else:
            # Into a pipe or a file goes what the resource holds and nothing else.
            sys.stdout.buffer.write(bytes_of(result.contents))


def _write(path: str, data: bytes) -> None:
    try:
        Path(path).write_bytes(data)
    except OSError as problem:
        raise Failed("usage", f"{path} cannot be written: {problem.strerror}", USAGE) from None
