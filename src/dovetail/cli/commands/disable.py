"""`dovetail disable KEY`."""

from __future__ import annotations

import argparse

from dovetail.cli.exit_status import OK
from dovetail.cli.options.config_options import add_file, check_key, chosen_file, recorded, tell, warn_of_others


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("key", metavar="KEY", help="the server")
    add_file(parser)


def run(options: argparse.Namespace) -> int:
    """Switch it off."""
    from dovetail.host.config.editing import edit_file, switch_off

    file, key = chosen_file(options), options.key
    check_key(file, key)
    with recorded("disable", {key: {}}, file):
        edit_file(file, lambda document: switch_off(document, key))
    warn_of_others(file)
    tell(options, f"Disabled {key} in {file}.", {"file": file, "key": key, "enabled": False})
    return OK
