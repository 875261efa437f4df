"""`dovetail complete TARGET REF ARGUMENT [VALUE]`."""

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
    parser.add_argument("reference", metavar="REF", help="the name of a prompt, or a resource template")
    parser.add_argument("argument", metavar="ARGUMENT")
    parser.add_argument("value", nargs="?", default="", metavar="VALUE", help="what was typed so far")
    parser.add_argument(
        "--context", action="append", default=[], metavar="KEY=VALUE", help="an argument that is settled already"
    )
    add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Complete."""
    from dovetail.cli.options.values import read_pairs

    options.context = read_pairs(options.context)
    return with_client(options, _complete)


async def _complete(client: Client, options: argparse.Namespace, screen: Screen) -> None:
    from dovetail.protocol.revisions import REVISIONS
    from dovetail.types import messages
    from dovetail.types.serialization import dump

    # Asked directly: waiting for the next key, as `Client.complete` does, is not for one question.
    word, revision = options.reference, REVISIONS[client.revision]
    template = "://" in word or "{" in word
    asked = messages.CompleteParams(
        messages.ResourceReference(word) if template else messages.PromptReference(word),
        messages.CompletionArgument(options.argument, options.value),
        messages.CompletionContext(options.context) if options.context else None,
    )
    raw = await client.request("completion/complete", revision.emit(asked))
    found = revision.load_result("completion/complete", raw)
    assert isinstance(found, messages.CompleteResult)
    if options.format == "json":
        output.show_json(dump(found.completion))
        return
    for value in found.completion.values:
        output.show_text(value)
