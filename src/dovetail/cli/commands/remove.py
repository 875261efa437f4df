"""`dovetail remove KEY`."""

from __future__ import annotations

import argparse
import asyncio

from dovetail.cli.exit_status import OK
from dovetail.cli.options.config_options import (
    add_file,
    check_key,
    chosen_file,
    forget_unwanted,
    opened,
    recorded,
    tell,
    warn_of_others,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("key", metavar="KEY", help="the server")
    add_file(parser)
    parser.epilog = "Inputs that no other server wants go with it, and their values from the keyring."


def run(options: argparse.Namespace) -> int:
    """Remove it."""
    return asyncio.run(_remove(options))


async def _remove(options: argparse.Namespace) -> int:
    from dovetail.host.config.document import ConfigDocument
    from dovetail.host.config.editing import edit_file, input_ids, remove_input, remove_server, wanted_inputs

    file, key = chosen_file(options), options.key
    check_key(file, key)
    before = input_ids(opened(file))

    def change(document: ConfigDocument) -> str:
        text = remove_server(document, key)
        for wanted in wanted_inputs(document, key):
            text = remove_input(ConfigDocument(document.file, text), wanted)
        return text

    with recorded("remove", {key: {}}, file):
        edit_file(file, change)
    forgotten = await forget_unwanted(before, file)
    warn_of_others(file)
    tell(options, f"Removed {key} from {file}.", {"file": file, "key": key, "forgotten": forgotten})
    return OK
