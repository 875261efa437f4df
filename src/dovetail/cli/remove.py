"""`dovetail remove KEY`."""

from __future__ import annotations

import argparse
import asyncio

from .configuring import add_file, check_key, chosen_file, entry_of, opened, record, tell
from .outcome import OK


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("key", metavar="KEY", help="the server")
    add_file(parser)
    parser.epilog = "Inputs that no other server wants go with it, and their values from the keyring."


def run(options: argparse.Namespace) -> int:
    """Remove it."""
    return asyncio.run(_remove(options))


async def _remove(options: argparse.Namespace) -> int:
    from dovetail.host.config.document import Document
    from dovetail.host.config.editing import edit_file, input_ids, remove_input, remove_server
    from dovetail.host.secrets import Secrets

    file, key = chosen_file(options), options.key
    check_key(file, key)
    entry, _ = entry_of(file, key)
    inputs = entry.inputs if entry is not None else ()

    def change(document: Document) -> str:
        text = remove_server(document, key)
        for wanted in inputs:
            text = remove_input(Document(document.file, text), wanted.id)
        return text

    record("remove", key, file)
    edit_file(file, change)
    left = input_ids(opened(file))
    gone = [wanted for wanted in inputs if wanted.id not in left]
    for wanted in gone:
        await Secrets().give(wanted, None)
    forgotten = [wanted.id for wanted in gone]
    tell(options, f"Removed {key} from {file}.", {"file": file, "key": key, "forgotten": forgotten})
    return OK
