"""`dovetail enable`, `disable` and `remove`: servers of a configuration file."""

from __future__ import annotations

import argparse
import asyncio
import sys

from dovetail.cli.exit_status import OK
from dovetail.cli.options.config_options import (
    add_file_option,
    audited,
    config_path,
    forget_removed_inputs,
    open_document,
    print_result,
    print_warnings,
    read_entry,
    require_server,
    warn_if_shared,
)
from dovetail.cli.options.terminal_prompts import TerminalPrompts
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay


def configure_disable(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("key", metavar="KEY", help="the server")
    add_file_option(parser)


def run_disable(options: argparse.Namespace) -> int:
    """Disable the server."""
    from dovetail.config.editing import edit_file, switch_off

    file, key = config_path(options), options.key
    require_server(file, key)
    with audited("disable", {key: {}}, file):
        edit_file(file, lambda document: switch_off(document, key))
    warn_if_shared(file)
    print_result(options, f"Disabled {key} in {file}.", {"file": file, "key": key, "enabled": False})
    return OK


def configure_enable(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("key", metavar="KEY", help="the server")
    parser.add_argument("--ask", action="store_true", help="ask for every input again, even if a value is stored")
    add_file_option(parser)


def run_enable(options: argparse.Namespace) -> int:
    """Enable the server and ask for the inputs it needs."""
    with ProgressDisplay(sys.stderr) as display:
        return asyncio.run(_enable(options, TerminalPrompts(display)))


async def _enable(options: argparse.Namespace, prompts: TerminalPrompts) -> int:
    from dovetail.client.targets.secrets import Secrets, variables_for
    from dovetail.config.editing import edit_file, switch_on

    file, key = config_path(options), options.key
    require_server(file, key)
    if options.ask and not prompts.available:
        raise UsageError("--ask needs a terminal")
    with audited("enable", {key: {}}, file):
        edit_file(file, lambda document: switch_on(document, key))
    entry, _ = read_entry(file, key)
    secrets = Secrets(on_input=prompts.input_value if prompts.available else None)
    missing: list[str] = []
    for wanted in entry.inputs if entry is not None else ():
        known = None if options.ask else await secrets.known(wanted)
        if known is None and await secrets.ask(key, wanted) is None and wanted.default is None:
            missing.append(wanted.id)
            print_warnings(
                [f"{wanted.id} has no value yet: `dovetail enable {key} --ask`, or set {variables_for(wanted)}"]
            )
    problem = entry.problem if entry is not None else None
    if problem is not None:
        print_warnings([f"the server cannot start yet: {problem}"])
    facts = {"file": file, "key": key, "enabled": True, "problem": problem, "missing": missing}
    print_result(options, f"Enabled {key} in {file}.", facts)
    return OK


def configure_remove(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("key", metavar="KEY", help="the server")
    add_file_option(parser)
    parser.epilog = "Inputs that no other server uses are removed too, with their stored values."


def run_remove(options: argparse.Namespace) -> int:
    """Remove the server."""
    return asyncio.run(_remove(options))


async def _remove(options: argparse.Namespace) -> int:
    from dovetail.config.document import ConfigDocument
    from dovetail.config.editing import edit_file, input_ids, remove_input, remove_server, wanted_inputs

    file, key = config_path(options), options.key
    require_server(file, key)
    before = input_ids(open_document(file))

    def change(document: ConfigDocument) -> str:
        text = remove_server(document, key)
        for wanted in wanted_inputs(document, key):
            text = remove_input(ConfigDocument(document.file, text), wanted)
        return text

    with audited("remove", {key: {}}, file):
        edit_file(file, change)
    forgotten = await forget_removed_inputs(before, file)
    warn_if_shared(file)
    print_result(options, f"Removed {key} from {file}.", {"file": file, "key": key, "forgotten": forgotten})
    return OK
