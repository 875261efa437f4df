"""`dovetail ping TARGET`.

`dovetail read TARGET URI`.

`dovetail prompt TARGET NAME key=value…`.

`dovetail complete TARGET REF ARGUMENT [VALUE]`.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.options.client_options import add_client_options, run_with_client
from dovetail.cli.options.targets import add_target_argument
from dovetail.cli.terminal.progress import ProgressDisplay

if TYPE_CHECKING:
    from dovetail.client.client import Client


def configure_ping(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_target_argument(parser)
    add_client_options(parser)


def run_ping(options: argparse.Namespace) -> int:
    """Send a ping."""
    return run_with_client(options, _ping)


async def _ping(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
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


def configure_read(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_target_argument(parser)
    parser.add_argument("uri", metavar="URI")
    add_client_options(parser)


def run_read(options: argparse.Namespace) -> int:
    """Read the resource."""
    return run_with_client(options, _read)


async def _read(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    from dovetail.cli.terminal.contents import contents_bytes, show_contents
    from dovetail.types.serialization import dump

    async with display.activity(f"Reading {options.uri}"):
        result = await client.read(options.uri)
    if options.format == "json":
        output.show_json(dump(result))
    elif sys.stdout.isatty():
        show_contents(result.contents)
    else:
        # Into a pipe or a file goes exactly the content of the resource.
        sys.stdout.flush()
        sys.stdout.buffer.write(contents_bytes(result.contents))


def configure_prompt(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_target_argument(parser)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("arguments", nargs="*", metavar="key=value")
    add_client_options(parser)


def run_prompt(options: argparse.Namespace) -> int:
    """Get the prompt."""
    from dovetail.cli.options.values import read_pairs

    options.arguments = read_pairs(options.arguments)
    return run_with_client(options, _prompt)


async def _prompt(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    from dovetail.cli.terminal.contents import ContentRenderer
    from dovetail.types.serialization import dump

    async with display.activity(f"Getting {options.name}"):
        result = await client.prompt(options.name, options.arguments)
    if options.format == "json":
        output.show_json(dump(result))
        return
    for message in result.messages:
        output.show_text(f"{message.role}: {ContentRenderer(None).describe(message.content)}")


def configure_complete(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_target_argument(parser)
    parser.add_argument("reference", metavar="REF", help="the name of a prompt, or a resource template")
    parser.add_argument("argument", metavar="ARGUMENT")
    parser.add_argument("value", nargs="?", default="", metavar="VALUE", help="the text typed so far")
    parser.add_argument(
        "--context", action="append", default=[], metavar="KEY=VALUE", help="an argument that already has a value"
    )
    add_client_options(parser)


def run_complete(options: argparse.Namespace) -> int:
    """Request completions."""
    from dovetail.cli.options.values import read_pairs

    options.context = read_pairs(options.context)
    return run_with_client(options, _complete)


async def _complete(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> None:
    from dovetail.protocol.revisions import REVISIONS
    from dovetail.types import messages
    from dovetail.types.serialization import dump

    # Not through `Client.complete`, which waits for further keystrokes.
    word, revision = options.reference, REVISIONS[client.revision]
    template = "://" in word or "{" in word
    params = messages.CompleteParams(
        messages.ResourceReference(word) if template else messages.PromptReference(word),
        messages.CompletionArgument(options.argument, options.value),
        messages.CompletionContext(options.context) if options.context else None,
    )
    raw = await client.request("completion/complete", revision.emit(params))
    result = revision.load_result("completion/complete", raw)
    assert isinstance(result, messages.CompleteResult)
    if options.format == "json":
        output.show_json(dump(result.completion))
        return
    for value in result.completion.values:
        output.show_text(value)
